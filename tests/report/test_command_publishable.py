"""What others see of a report: never where on this machine anything is."""

from dataclasses import replace
from pathlib import Path

import pytest

from hf_lineage import Options
from hf_lineage.checking.result import NAMED, Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.executed import Strict
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.report import FORMATS
from hf_lineage.report.command import public, renamed, shortened
from tests.pages import measured, report, row

HOME = Path("/home/alice")
FOLDER = "/home/alice/secret-project/model"


@pytest.fixture(autouse=True)
def at_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(HOME))
    monkeypatch.setenv("USERPROFILE", str(HOME))


def folder_report(**settings):
    strict = Strict("/home/alice/bases/base", stored={"Q8_0": 1})
    unread = Verdict(Code.NO_WEIGHTS, "/home/alice/bases/base: no weights", strict=strict)
    base = Row(Claim("/home/alice/bases/base", None, NAMED), unread,
               notes=("see /home/alice/.cache/huggingface/x", f"{FOLDER}/config.json is odd"))  # fmt: skip
    found = report(base, row(mlp=measured()), model=FOLDER, **settings)
    return replace(found, source=RepoRef(FOLDER, Path(FOLDER)), notes=(f"{FOLDER}: a note",))


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_no_path_of_a_home_directory_is_in_what_people_pass_on(form):
    options = Options(local_hub=HOME / "hub", nulls=("/home/alice/nulls/one",))
    text = FORMATS[form](folder_report(options=options), True)
    assert "alice" not in text
    assert "secret-project" not in text


def test_a_command_in_json_has_none_either():
    (line,) = [line for line in FORMATS["json"](folder_report(), True).splitlines() if line.startswith('  "command"')]
    assert line == '  "command": "hf-lineage check /path/to/model --base /path/to/base",'


def test_the_last_part_of_a_path_is_left_and_the_home_is_a_tilde():
    shown = public(folder_report())
    assert (shown.model, shown.rows[0].claim.base) == ("./model", "./base")
    assert shown.rows[0].verdict.reason == "./base: no weights"
    assert shown.rows[0].notes == ("see ~/.cache/huggingface/x", "./model/config.json is odd")
    assert shown.notes == ("./model: a note",)


def test_what_a_card_declares_is_shown_as_it_is_declared():
    declared = Row(Claim("/scratch/bob/base", None, ("README.md",)), Verdict(Code.NO_BASE, "no name"))
    assert public(report(declared)).rows[0].claim.base == "/scratch/bob/base"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("org/name@main", "org/name@main"), ("./here", "./here"), ("a/b/c", "a/b/c"), ("/x/y/", "./y"),
        ("../up/y", "./y"), ("~/y", "./y"), ("a/../b", "./b"), ("\x00/../x", "./x"),
    ],
)  # fmt: skip
def test_a_path_that_leads_out_of_the_working_directory_is_its_last_part(name, short):
    assert shortened(name) == short


def test_a_name_is_replaced_where_it_is_a_word_or_begins_a_path():
    assert renamed("/a/b: /a/b/c, x/a/b, /a/bc", {"/a/b": "./b"}) == "./b: ./b/c, x/a/b, /a/bc"
