"""A stored report is held against a new check: what differs is a line each, and it never chooses what is run."""

import json

import msgspec
import pytest

from hf_lineage import Options, check, compare, stored
from hf_lineage.errors import CardError, OptionError, RepositoryError
from hf_lineage.report import json as form
from hf_lineage.report.json import encode
from tests import goldens

DOCUMENT = json.loads(goldens.read(goldens.REPORT))


def content(**changes):
    return json.dumps(DOCUMENT | changes).encode()


def claimed(**changes):
    (claim,) = DOCUMENT["claims"]
    return stored.decode(content(claims=[claim | changes]), "f")


def again(document, **options):
    options = {"local_hub": goldens.HUB, **options}
    return stored.verify(document, None, (), Options(**options))[1]


@pytest.mark.parametrize(("text", "message"), [
    (b"", "f is not a file that hf-lineage wrote"),
    (b"[]", "f is not a file that hf-lineage wrote"),
    (b"[" * 10**5, "f is not a file that hf-lineage wrote"),
    (b'{"schema_version": 5}', "f is not a file that hf-lineage wrote"),
    (b'{"schema_version": 5, "x": \xff}', "f is not a file that hf-lineage wrote"),
    (content(schema_version=4), "f was written by an earlier hf-lineage; check the model again"),
    (content(schema_version=6), "f was written by a later hf-lineage; update hf-lineage"),
    (content(recipe=DOCUMENT["recipe"] | {"probes": 0}), "probes must be between 1 and 65536"),
    (content(claims=DOCUMENT["claims"] * 2001), "length <= 2000"),
])  # fmt: skip
def test_what_is_no_report_of_this_version_is_refused(text, message):
    with pytest.raises(CardError, match=message):
        stored.decode(text, "f")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(stored.LARGEST + 1)
    for name, why in (("none", "cannot be read"), ("large", "is larger than 64 MiB"), ("", "cannot be read")):
        with pytest.raises(CardError, match=f"{name} {why}"):
            stored.read_report(tmp_path / name)


@pytest.fixture(scope="module")
def checked():
    return goldens.pair()


@pytest.mark.parametrize(("changes", "lines"), [
    ({"code": "part"}, [("acme/llama-base: verdict VERIFIED part stored, VERIFIED inherited now", True)]),
    ({"score": 0.5}, [("acme/llama-base: score 0.500 stored, ", False)]),
    ({"inherited": None}, [("acme/llama-base: inherited share None stored, 1.000 now", False)]),
    ({"verdict": "\x1b[31m\n::x"}, [(r"acme/llama-base: verdict \x1b[31m\n:\x3ax inherited stored, ", True)]),
    ({"base": "acme/other"}, [("acme/other: verdict VERIFIED inherited stored, no claim now", True),
                              ("acme/llama-base: verdict no claim stored, VERIFIED inherited now", True)]),
])  # fmt: skip
def test_each_difference_is_one_line(checked, monkeypatch, changes, lines):
    monkeypatch.setattr(stored.check, "check_source", lambda *_: checked)
    for (told, is_grave), (line, grave) in zip(again(claimed(**changes)), lines, strict=True):
        assert (told.startswith(line), told.isprintable(), is_grave) == (True, True, grave)


@pytest.mark.parametrize("name", ["/etc", "../x", ".", "~/x", "a/b@refs/pr/1"])
def test_what_is_no_model_on_the_hub_is_not_opened(name):
    base, _, commit = name.partition("@")
    with pytest.raises(OptionError, match=f"the report names {name}, which is not opened .*; add --base BASE"):
        again(claimed(base=base, base_commit=commit or None, sources=["--base"]))
    with pytest.raises(OptionError, match=f"the report names {name}, which is not opened .*; add MODEL"):
        again(stored.decode(content(model=base, commit=commit or None), "f"))


@pytest.mark.parametrize(("name", "typed"), form.AGAIN.items())
def test_no_report_makes_the_checker_run_code_read_files_or_use_unknown_settings(name, typed):
    report = stored.decode(content(settings=DOCUMENT["settings"] | {name: True}), "f")
    with pytest.raises(OptionError, match=f"the report was made with {typed}, which no file turns on; add it yourself"):
        again(report)
    assert name not in form.TAKEN
    with pytest.raises(OptionError, match="alpha must be a number, not 'x'"):
        again(stored.decode(content(settings=DOCUMENT["settings"] | {"alpha": "x"}), "f"))
    with pytest.raises(OptionError, match="has a recipe that this hf-lineage does not know"):
        again(stored.decode(content(recipe=DOCUMENT["recipe"] | {"name": "../../x"}), "f"))
    lenient = content(settings=DOCUMENT["settings"] | {"alpha": 0.5, "min_share": 0.01})
    assert str(stored.decode(lenient, "f")).endswith("; alpha 0.5; min_share 0.01"), "what is unusual is told"
    assert ";" not in str(stored.decode(content(), "f"))


def test_folders_stand_for_those_of_the_report_where_they_are_given_alone(hub, monkeypatch):
    monkeypatch.chdir(hub)
    with pytest.raises(RepositoryError, match="acme/base may be a name on the Hub, and there is a folder"):
        stored.verify(stored.decode(content(model="acme/base", claims=[]), "f"), None, (), Options())
    model, base = hub / "fern/child", hub / "acme/base"
    report = check(str(model), str(base))
    record = stored.decode(encode(form.publish_report(report)).encode(), "f")
    assert stored.verify(record, str(model), (str(base),), Options())[1] == []
    with pytest.raises(OptionError, match="the report has 1 bases by --base, not 2"):
        stored.verify(record, str(model), (str(base), "x/y"), Options())


def test_what_was_compared_is_again_and_the_last_digit_of_a_score_no_difference():
    assert again(claimed(score=DOCUMENT["claims"][0]["score"] + 5e-4)) == []
    options = Options(local_hub=goldens.HUB, seed=0, permutations=99, paths=("mlp",))
    report = compare("acme/llama-base", ("fern/llama-finetune-a", "fern/llama-finetune-b"), options)
    document = stored.decode(encode(form.document(report)).encode(), "f")
    assert again(document) == []
    with pytest.raises(OptionError, match="the report compares several models; leave MODEL out"):
        stored.verify(document, "x/y", (), options)


def test_on_the_hub_it_is_at_the_commits_of_the_report(online):
    names = ("fern/llama-finetune-a", "acme/llama-base")
    report = check(names[0], options=Options(seed=0, permutations=99, paths=("mlp",)))
    document = stored.decode(encode(form.publish_report(report)).encode(), "f")
    checked, found = stored.verify(document, None, (), Options())
    assert found == []
    assert str(checked) == " against ".join(f"{name}@{online.commit(name, 'main')}" for name in names)
    moved, now = msgspec.structs.replace(document, commit="0" * 40), online.commit(names[0], "main")
    (told,) = stored.verify(moved, names[0], (), Options())[1]
    assert told == (f"the model: commit {'0' * 40} stored, {now} now", False)
