"""Names as people write them: each means a model of the Hub, or is set aside with a sentence of its own."""

import pytest

from hf_lineage.claims.names import DATA_SET, ELSEWHERE, LONGEST, PAGE, PATH, UNLIKE, WORD, Name, names_in, understood

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("org/name", "org/name"),
        ("gpt2", "gpt2"),
        ("org/name@v1", "org/name@v1"),
        ("org/name/", "org/name"),
        ("https://huggingface.co/org/name", "org/name"),
        ("http://www.huggingface.co/org/name/", "org/name"),
        ("HTTPS://HuggingFace.co/org/name", "org/name"),
        ("huggingface.co/org/name", "org/name"),
        ("hf.co/org/name", "org/name"),
        ("hf.co/org/name:Q4_K_M", "org/name"),
        ("hf://org/name", "org/name"),
        ("hf://models/org/name", "org/name"),
        ("git@hf.co:org/name.git", "org/name"),
        ("https://huggingface.co/org/name.git", "org/name"),
        ("https://huggingface.co/org/name/tree/main", "org/name"),
        ("https://huggingface.co/org/name/tree/v1.0/sub", "org/name@v1.0"),
        ("https://huggingface.co/org/name/blob/main/README.md", "org/name"),
        (f"https://huggingface.co/org/name/commit/{COMMIT}", f"org/name@{COMMIT}"),
        ("https://huggingface.co/org/name/tree/refs%2Fpr%2F1", "org/name@refs/pr/1"),
        ("https://huggingface.co/org/name/discussions/3", "org/name"),
        ("https://huggingface.co/org/name?library=transformers#usage", "org/name"),
        ("https://huggingface.co/gpt2/tree/main", "gpt2"),
        ("[org/name](https://huggingface.co/org/name)", "org/name"),
        ("<https://huggingface.co/org/name>", "org/name"),
        ("`org/name`", "org/name"),
        (f"/root/.cache/huggingface/hub/models--org--name/snapshots/{COMMIT}", f"org/name@{COMMIT}"),
        (f"C:\\hub\\models--org--name\\snapshots\\{COMMIT}\\", f"org/name@{COMMIT}"),
        ("models--org--na-me", "org/na-me"),
        ("models--gpt2", "gpt2"),
        ("base_model:org/name", "org/name"),
    ],
)
def test_what_means_a_model_is_understood(text, base):
    assert understood(text) == Name(base)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((path, PATH) for path in (
            "/home/me/llama", "~/llama", "./out", "../out", ".", r"D:\models\llama", r"\\\\nas\share",
            r"models\llama", "/", "$HOME/llama", "%USERPROFILE%/llama", "file:///tmp/llama", "file:llama", "a/b/c",
            "output/checkpoint-500", "checkpoint-500", "org//name", "org/../name", "/content/drive/MyDrive/x",
        )),
        *((data, DATA_SET) for data in (
            "datasets/org/name", "https://huggingface.co/datasets/org/name", "hf://datasets/org/name",
        )),
        *((page, PAGE) for page in (
            "https://huggingface.co/", "https://huggingface.co/spaces/org/name", "https://hf.co/papers/2401.1",
            "https://huggingface.co/models?other=base_model:org/name", "https://huggingface.co/collections/org/x-1",
        )),
        *((site, ELSEWHERE) for site in (
            "https://example.com/org/name", "github.com/org/name", "https://huggingface.co.evil.org/org/name",
            "https://huggingface.co@evil.org/org/name", "s3://bucket/model", "http://127.0.0.1:8000/org/name",
            "https://evil.org/huggingface.co/org/name", "ftp://hf.co.evil.org/x/y",
        )),
        *((word, WORD) for word in ("None", "none", "N/A", "-", "[]", "unknown", "TBD", "False")),
        *((text, UNLIKE) for text in (
            "My Own Llama", "org/na me", "org/name@", "@org/name", "https://huggingface.co/org/na%20me",
            "https://huggingface.co/..%2F..%2Fetc/passwd", "models--..--etc",
        )),
    ],
)  # fmt: skip
def test_what_means_none_is_set_aside_with_its_own_sentence(text, problem):
    if text == ".":
        assert "not ." in understood(text).problem
    else:
        assert (understood(text).base, understood(text).problem) == (text, problem)


def test_a_tag_says_the_relation():
    assert understood("base_model:Quantized:org/name", "finetune") == Name("org/name", "quantized")
    assert understood("base_model:org/name", "finetune") == Name("org/name", "finetune")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["org/a", None, "", ["x"]], ["org/a", "list"]),
        ({"name": "org/a"}, ["org/a"]),
        ([{"model": "org/a"}, {"id": "org/b"}], ["org/a", "org/b"]),
        ({"relation": "merge", "models": [{"id": "org/a"}, "org/b", 3]}, ["org/a", "org/b", "int"]),
        ({}, ["a mapping without a name"]),
        ({"name": {"name": "org/a"}}, ["a mapping without a name"]),
        (True, ["bool"]),
        (None, []),
    ],
)
def test_values_of_any_form_are_read(value, names):
    assert [name.base for name in names_in(value)] == names


def test_a_mapping_says_the_relation():
    assert [name.relation for name in names_in({"relation": "Merge", "models": ["org/a"]})] == ["merge"]
    assert [name.relation for name in names_in({"relation": "child", "name": "org/a"}, "finetune")] == ["finetune"]


@pytest.mark.parametrize("text", ["/" * LONGEST, "models--" * 125, "a-" * 500, "a." * 500, "[" * LONGEST, "x" * 10**6])
def test_hostile_text_costs_nothing(text):
    assert understood(text).problem
    assert len(understood(text).base) <= 200
