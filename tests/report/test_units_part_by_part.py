"""The parts of a model stand side by side, each with its own base, verdict and share."""

from dataclasses import replace

from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import FORMATS, units
from hf_lineage.report.findings import describe_report
from tests.pages import measured, report, row

LANGUAGE = row(layers=6, mlp=measured())
TOWER = replace(row(base="org/tower", layers=4, mlp=measured()), part="vision")
UNREAD = replace(TOWER, part="audio", verdict=Verdict(Code.NO_BASE, "it stands nowhere"))


def named(told):
    return [maker.name for maker, _ in describe_report(told)]


def test_a_row_a_part_with_its_base_and_what_is_inherited():
    finding = units.describe_parts([], report(LANGUAGE, TOWER, UNREAD))
    share = finding.tables[0].rows[0][3]
    assert share.endswith("%")
    assert finding.tables[0].rows == (
        ("the model itself", "org/base", LANGUAGE.verdict.label, share),
        ("vision", "org/tower", TOWER.verdict.label, share),
        ("audio", "org/tower", "UNDECIDED no-base", ""),
    )
    assert [bar.label for bar in finding.picture.bars] == ["the model itself: org/base", "vision: org/tower"]
    assert [(one["part"], one["verified"]) for one in finding.values][1:] == [
        ("vision", TOWER.verdict.verified),
        ("audio", False),
    ]
    assert finding.values[2]["inherited"] is None


def test_a_tower_that_comes_from_nowhere_is_drawn_pale():
    stranger = replace(TOWER, verdict=replace(TOWER.verdict, code=Code.UNRELATED))
    assert [bar.pale for bar in units.describe_parts([], report(LANGUAGE, stranger)).picture.bars] == [False, True]


def test_a_model_of_one_part_has_no_such_table():
    assert "parts" in named(report(LANGUAGE, TOWER))
    assert "parts" not in named(report(LANGUAGE))
    assert "parts" not in named(report(TOWER))


def test_names_of_bases_are_no_markup():
    hostile = replace(row(base="<script>alert(1)</script>", layers=6, mlp=measured()), part="<b>vision")
    page = FORMATS["html"](report(LANGUAGE, hostile), True)
    assert "<script>alert" not in page
    assert "<b>vision" not in page
