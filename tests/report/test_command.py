"""The command that makes a report, or one of its rows, again: words of a shell, at the same commits."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage import Options, check, compare
from hf_lineage.checking.result import NAMED, ClaimResult
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.executed import Strict
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report import FORMATS
from hf_lineage.report.command import hide_names, of_claim, of_report, public, shorten_path
from hf_lineage.signature.recipe import RECIPES
from tests.invoking import lineage
from tests.pages import measured, report, row
from tests.report.families import claimed

A, B = "a" * 40, "b" * 40
BASE = "org/base"


@pytest.mark.parametrize(("options", "words"), [
    ({}, ""),
    ({"paths": ("mlp", "query_key")}, "--paths mlp,query_key"),
    ({"paths": ("all",), "budget": "full"}, "--paths all --budget full"),
    ({"recipe": RECIPES["paper"]}, " # with Options(recipe='paper') in Python"),
    ({"permutations": 99, "seed": 3}, "--seed 3  # with Options(permutations=99) in Python"),
    ({"budget": "quick"}, "--budget quick"),
    ({"accept": ("part", "embedding")}, "--accept part --accept embedding"),
    ({"recompute": True}, "--no-cache"),
    ({"nulls": ("x/y", "./two words")}, "--null x/y --null './two words'"),
    ({"file": "q8.gguf"}, "--file q8.gguf"),
])  # fmt: skip
def test_options_that_are_not_the_usual_ones_are_in_it(options, words):
    rest = f" {words}" if words else ""
    found = report(row(commit=B), model="fern/child@main", commit=A, options=Options(**options))
    assert of_claim(found, *found.rows) == f"hf-lineage check fern/child@{A} --base {BASE}@{B}{rest}"
    assert of_report(found) == f"hf-lineage check fern/child@{A}{rest}"


def test_names_are_words_of_a_shell_bases_named_each_once_and_folders_part_of_a_name():
    found = report(row("a; rm -rf / $(x) `y`"), model="-x 'y'")
    words = shlex.split(of_claim(found, *found.rows, write=str))
    assert words == ["hf-lineage", "check", "-x 'y'", "--base", "a; rm -rf / $(x) `y`"]
    rows = (row(sources=NAMED, commit=B), row(sources=NAMED, commit=B), row("./x", sources=NAMED))
    assert of_report(report(*rows)) == f"hf-lineage check org/model --base {BASE}@{B} --base ./x"
    no_name = Claim("C:/models/base", None, ("README.md",), "it is no name")
    broken = ClaimResult(no_name, Verdict(Code.NO_BASE, "it is no name"))
    assert of_claim(report(broken), broken) == "hf-lineage check org/model"
    for name in ("org/model@main", "org/model/text_encoder@main"):
        found = report(row(), model=name, commit=A, options=Options(subfolder="text_encoder"))
        assert of_claim(found, row()).split()[2] == f"org/model/text_encoder@{A}"


@pytest.mark.parametrize(("model", "bases", "settings"), [
    ("../fern/child", ("../acme/base",), {}), ("{hub}/fern/child", ("{hub}/acme/base",), {}),
    ("../fern/child", (), {"local_hub": "../../{name}"}), ("fern/child", (), {"local_hub": ".."}),
    ("fern/child", ("../acme/base",), {"local_hub": "{hub}"}),
    ("../fern/child/.", ("acme/base",), {"local_hub": "..", "registry": "../registry"}),
])  # fmt: skip
@pytest.mark.few(1)
def test_a_command_that_is_printed_gives_the_verdict_beside_it(hub, monkeypatch, model, bases, settings):
    for folder in ("room", "registry", "far/below/here"):
        (hub / folder).mkdir(parents=True)
    monkeypatch.chdir(hub / "far/below/here")  # nearer folders are written as ../x
    compared = of_report(compare(str(hub / "acme/base"), str(hub / "fern/child")))
    assert compared.startswith("hf-lineage compare /path/to/base /path/to/child")
    monkeypatch.chdir(hub / "room")

    def here(text):
        return text.format(hub=hub, name=hub.name)

    options = Options(**{key: here(value) for key, value in settings.items()})
    found = check(here(model), tuple(map(here, bases)), options)
    assert found.rows[0].verdict.word == "VERIFIED"
    for again in (of_report(found), of_claim(found, found.rows[0])):
        assert str(hub) not in again
        outcome = lineage(*shlex.split(again)[1:])
        assert (outcome.code, outcome.rows[0][-2:]) == (found.exit_code, ["VERIFIED", "inherited"])


FOLDER = "/home/alice/secret-project/model"


@pytest.fixture(autouse=True)
def at_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("USERPROFILE", "/home/alice")


def test_no_path_of_a_home_directory_is_in_what_people_pass_on():
    """The last part of a path is left, and the home is a tilde."""
    strict = Strict("/home/alice/bases/base", stored={"Q8_0": 1})
    unread = Verdict(Code.NO_WEIGHTS, "/home/alice/bases/base: no weights", strict=strict)
    base = ClaimResult(Claim("/home/alice/bases/base", None, NAMED), unread,
               notes=("see /home/alice/.cache/huggingface/x", f"{FOLDER}/config.json is odd"))  # fmt: skip
    options = Options(local_hub=Path("/home/alice/hub"), nulls=("/home/alice/nulls/one",))
    found = report(base, row(mlp=measured()), model=FOLDER, options=options)
    found = replace(found, source=RepoRef(FOLDER, Path(FOLDER)), notes=(f"{FOLDER}: a note",))
    for form in ("html", "markdown"):
        text = FORMATS[form](found, True)
        assert not any(word in text for word in ("alice", "secret-project"))
    document = json.loads(FORMATS["json"](replace(found, options=Options()), True))
    assert document["command"] == "hf-lineage check /path/to/model --base /path/to/base"
    shown = public(found)
    assert (shown.model, shown.rows[0].claim.base, shown.notes) == ("./model", "./base", ("./model: a note",))
    assert shown.rows[0].verdict.reason == "./base: no weights"
    assert shown.rows[0].notes == ("see ~/.cache/huggingface/x", "./model/config.json is odd")
    declared = claimed(Verdict(Code.NO_BASE, "no name"), "/scratch/bob/base")
    assert public(report(declared)).rows[0].claim.base == "/scratch/bob/base", "as the card declares it"
    assert hide_names("/a/b: /a/b/c, x/a/b, /a/bc", {"/a/b": "./b"}) == "./b: ./b/c, x/a/b, /a/bc"


@pytest.mark.parametrize(("name", "short"), [
    ("org/name@main", "org/name@main"), ("./here", "./here"), ("a/b/c", "a/b/c"), ("/x/y/", "./y"),
    ("../up/y", "./y"), ("~/y", "./y"), ("a/../b", "./b"), ("\x00/../x", "./x"),
])  # fmt: skip
def test_a_path_that_leads_out_of_the_working_directory_is_its_last_part(name, short):
    assert shorten_path(name) == short
