"""What a model can say wrongly about its base, and what the command line makes of it."""

import os

import pytest

from tests.invoking import check
from tests.models import WEIGHTS, card, edit_json, spoil, tiny_llama


@pytest.mark.parametrize(
    ("front", "message"),
    [
        (
            "base_model: [acme/base",
            "line 1 of its YAML: expected ',' or ']', but got '<stream end>'; correct it",
        ),
        ("x: y\n" * 300_000, "the metadata at the top of README.md has no line of --- at its end within 1 MiB"),
    ],
)
def test_a_broken_card_is_an_error(hub, front, message):
    (hub / "fern/child/README.md").write_text(f"---\n{front}\n---\n")
    assert message in check(hub).error


def test_a_broken_card_does_not_matter_where_the_base_is_named(hub):
    (hub / "fern/child/README.md").write_text("---\nbase_model: [\n---\n")
    assert check(hub, "--base", "acme/base").code == 0


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_a_card_that_is_no_file_is_an_error_and_never_waited_for(hub, make):
    readme = hub / "fern/child/README.md"
    readme.unlink()
    make(readme)
    assert (
        "README.md is not a readable file but a folder, a pipe or a broken link; put a file there" in check(hub).error
    )


@pytest.mark.parametrize(
    ("base_model", "shown", "message"),
    [
        ({"nom": "acme/base"}, "a mapping without a name", "not a mapping without a name"),
        (7, "7", "base_model must be a model name such as org/model, not 7"),
        (2.5, "2.5", "base_model must be a model name such as org/model, not 2.5"),
        (
            "/nowhere/base",
            "/nowhere/base",
            "/nowhere/base: it is a path on the machine that trained the model, not a name on the Hub",
        ),
        (
            "acme/base\n# RELATED",
            r"acme/base\n#",
            r"base_model must be a model name such as org/model, not acme/base\n#",
        ),
        ("\x1b[2Jacme/base", r"\x1b[2Jacme/base", r"such as org/model, not \x1b[2Jacme/base"),
        ("acme/base\0", r"acme/base\x00", r"such as org/model, not acme/base\x00"),
        ("acme/\ud800", r"acme/\ud800", r"such as org/model, not acme/\ud800"),
        (
            "x" * 5000,
            "",
            "base_model must be a model name such as org/model, not xxxxx",
        ),
    ],
    ids=[
        "mapping",
        "integer",
        "number",
        "missing folder",
        "two lines",
        "escape sequence",
        "null byte",
        "half a pair",
        "5,000 characters",
    ],
)
def test_a_base_that_cannot_be_followed_is_unverifiable(hub, base_model, shown, message):
    card(hub / "fern/child", base_model)
    result = check(hub)
    assert (result.code, result.err) == (3, "")
    assert "UNVERIFIABLE" in result.out
    assert all(line.isprintable() for line in result.out.splitlines())
    assert shown in result.sentences
    assert message in result.sentences


@pytest.mark.parametrize("base_model", [None, [], "", "  "])
def test_nothing_declared_is_undecided(hub, base_model):
    card(hub / "fern/child", base_model)
    result = check(hub)
    assert (result.code, result.err) == (3, "")
    assert result.sentences.endswith(
        "Nothing is declared: no base_model in README.md, adapter_config.json or mergekit_config.yml. "
        "Name one with --base."
    )


def test_several_claims_are_judged_one_by_one_and_the_worst_counts(hub):
    tiny_llama(hub / "acme/other", seed=1)
    spoil(tiny_llama(hub / "acme/wide", width=64), lambda tensors: tensors.pop("model.embed_tokens.weight"))
    card(hub / "fern/child", ["acme/base", "acme/other", "acme/wide", 7])
    result = check(hub)
    assert [(row[0], row[-1]) for row in result.rows] == [
        ("acme/base", "RELATED"),
        ("value_output", "RELATED"),  # a line of the same row
        ("acme/other", "UNRELATED"),
        ("value_output", "UNRELATED"),
        ("units", "UNRELATED"),
        ("acme/wide", "INCOMPATIBLE"),
        ("7", "UNVERIFIABLE"),
    ]
    assert result.code == 1
    os.truncate(hub / "acme/wide" / WEIGHTS, 100)
    assert check(hub).code == 2


def test_conflicting_claims_are_shown(hub):
    edit_json(hub / "fern/child/adapter_config.json", base_model_name_or_path="acme/other")
    (hub / "fern/child/mergekit_config.yml").write_text("models: [{model: acme/base}, {model: acme/third}]")
    result = check(hub)
    assert [row[0] for row in result.rows] == ["acme/base", "value_output"]
    assert (
        "Conflicting claims: README.md declares acme/base; adapter_config.json declares acme/other; "
        "mergekit_config.yml declares acme/base, acme/third; README.md counts"
    ) in result.sentences


def test_a_model_that_declares_itself_is_unverifiable(hub):
    card(hub / "fern/child", "fern/child")
    result = check(hub)
    assert (result.code, result.rows[0][-1]) == (3, "UNVERIFIABLE")
    assert "the model declares itself as its base" in result.sentences


def test_a_revision_that_a_local_hub_cannot_have_is_unverifiable(hub):
    card(hub / "fern/child", "acme/base@v1")
    result = check(hub)
    assert (result.code, result.rows[0][-1]) == (3, "UNVERIFIABLE")
    assert "a local hub has no revisions; leave @v1 out" in result.sentences
