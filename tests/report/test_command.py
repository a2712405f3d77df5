"""The command that makes a report, or one of its rows, again: words of a shell, at the same commits."""

import shlex

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report.command import of_claim, of_report
from hf_lineage.signature.recipe import RECIPES
from tests.invoking import lineage
from tests.pages import report, row

A, B = "a" * 40, "b" * 40
BASE = "org/base"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"paths": ("mlp", "query_key")}, "--paths mlp,query_key"),
        ({"paths": ("all",), "budget": "full"}, "--paths all --budget full"),
        ({"recipe": RECIPES["paper"]}, " # with Options(recipe='paper') in Python"),
        (
            {"permutations": 99, "seed": 3},
            "--seed 3  # with Options(permutations=99) in Python",
        ),
        ({"budget": "quick"}, "--budget quick"),
        ({"accept": ("part", "embedding")}, "--accept part --accept embedding"),
        ({"recompute": True}, "--no-cache"),
        ({"nulls": ("x/y", "./two words")}, "--null x/y --null './two words'"),
        ({"file": "q8.gguf"}, "--file q8.gguf"),
    ],
)
def test_options_that_are_not_the_usual_ones_are_in_it(options, words):
    rest = f" {words}" if words else ""
    found = report(row(commit=B), model="fern/child@main", commit=A, options=Options(**options))
    assert of_claim(found, *found.rows) == f"hf-lineage check fern/child@{A} --base {BASE}@{B}{rest}"
    assert of_report(found) == f"hf-lineage check fern/child@{A}{rest}"


def test_it_is_words_of_a_shell_whatever_the_names_are():
    found = report(row("a; rm -rf / $(x) `y`"), model="-x 'y'")
    words = shlex.split(of_claim(found, *found.rows, write=str))
    assert words == ["hf-lineage", "check", "-x 'y'", "--base", "a; rm -rf / $(x) `y`"]


def test_bases_that_were_named_are_named_again_each_once():
    rows = (row(sources=NAMED, commit=B), row(sources=NAMED, commit=B), row("./x", sources=NAMED))
    assert of_report(report(*rows)) == f"hf-lineage check org/model --base {BASE}@{B} --base ./x"


def test_a_claim_that_names_no_model_names_none_in_its_command():
    broken = Row(Claim("C:/models/base", None, ("README.md",), "it is no name"), Verdict(Code.NO_BASE, "it is no name"))
    assert of_claim(report(broken), broken) == "hf-lineage check org/model"


def test_a_folder_of_the_repository_is_part_of_its_name():
    inside = Options(subfolder="text_encoder")
    for name in ("org/model@main", "org/model/text_encoder@main"):
        again = of_claim(report(row(), model=name, commit=A, options=inside), row())
        assert again.split()[2] == f"org/model/text_encoder@{A}"


def test_what_the_user_called_is_called_again(hub, monkeypatch):
    (hub / "far/below/here").mkdir(parents=True)
    monkeypatch.chdir(hub / "far/below/here")  # nearer folders are written as ../x
    found = compare(str(hub / "acme/base"), str(hub / "fern/child"))
    assert shlex.split(of_report(found))[:4] == ["hf-lineage", "compare", "/path/to/base", "/path/to/child"]


@pytest.fixture
def folders(hub, monkeypatch):
    """A working directory beside the folder in which a model and its base are."""
    (hub / "room").mkdir()
    monkeypatch.chdir(hub / "room")
    return hub


@pytest.mark.parametrize(
    ("model", "bases", "settings"),
    [
        ("../fern/child", ("../acme/base",), {}),
        ("{hub}/fern/child", ("{hub}/acme/base",), {}),
        ("../fern/child", (), {"local_hub": "../../{name}"}),
        ("fern/child", (), {"local_hub": ".."}),
        ("fern/child", ("../acme/base",), {"local_hub": "{hub}"}),
        ("../fern/child/.", ("acme/base",), {"local_hub": "..", "registry": "../registry"}),
    ],
)
@pytest.mark.few(1)
def test_a_command_that_is_printed_gives_the_verdict_beside_it(folders, model, bases, settings):
    (folders / "registry").mkdir()

    def here(text):
        return text.format(hub=folders, name=folders.name)

    options = Options(**{key: here(value) for key, value in settings.items()})
    found = check(here(model), tuple(map(here, bases)), options)
    assert found.rows[0].verdict.word == "VERIFIED"
    for again in (of_report(found), of_claim(found, found.rows[0])):
        assert str(folders) not in again
        outcome = lineage(*shlex.split(again)[1:])
        assert (outcome.code, outcome.rows[0][-2:]) == (found.exit_code, ["VERIFIED", "inherited"])
