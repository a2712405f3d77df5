from dataclasses import replace

import pytest

from hf_lineage import Options
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.unit_comparison import judge_units
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.lora.gradient_alignment import judge_trace
from hf_lineage.report import FORMATS, units, wording
from hf_lineage.report.findings import describe_report, state_outcome
from tests import pages
from tests.evidence.test_unit_comparison import IN_ORDER, INDEPENDENT, SHUFFLED
from tests.example_evidence import evidence, trace
from tests.pages import document, report
from tests.report.families import claimed

UNRELATED = judge({"mlp": evidence(score=0.01, p=0.5, shares=(0.0,) * 4)}, Criteria())


def row(framed, first=UNRELATED):
    verdict = judge_units(framed, Criteria())
    verdict = replace(verdict, evidence=first.evidence, by_path=first.by_path) if first else verdict
    return claimed(verdict)


def test_table_outcome_and_json_say_the_share_of_units_and_no_score():
    lines = list(wording.cells(row(SHUFFLED)))
    assert [line[2:] for line in lines] == [
        ("mlp", "0.010", "0%", "0.5", "UNRELATED"),
        ("units", "-", "100%", wording.order_p(SHUFFLED), "RELATED calibrated"),
    ]
    (line,) = wording.cells(row(IN_ORDER, None))
    assert line == ("org/base", "finetune", "units", "-", "100%", "0.005", "VERIFIED inherited")
    outcome = state_outcome(row(IN_ORDER))
    assert outcome.startswith("org/base is VERIFIED inherited (100% of its units inherited, p = 0.005): the residual ")
    p_values = [wording.p_value(row(one)) for one in (IN_ORDER, INDEPENDENT)]
    assert (wording.best(row(IN_ORDER)), p_values) == (None, [0.005, 0.5])
    assert wording.inherited_share(row(SHUFFLED)) == pytest.approx(1)
    rows = (row(IN_ORDER), row(SHUFFLED), row(INDEPENDENT), row(IN_ORDER, None), row(INDEPENDENT, None))
    claims = document(report(*rows))["claims"]
    codes = ["inherited", "calibrated", "unrelated", "inherited", "unrelated"]
    assert ([claim["code"] for claim in claims], claims[0]["units"]["p_value_adjusted"]) == (codes, 0.005)
    assert claims[0]["units"]["calibration"]["pairs"] > 1000


def report_adapter(*traces, layers=2):
    """A report on an adapter with a row for each of these tests."""
    judged = (judge_trace(one, Criteria()) for one in traces)
    rows = (claimed(verdict, "acme/base", "adapter", layers=layers) for verdict in judged)
    return report(*rows, model="fern/lora", options=Options(seed=3))


@pytest.mark.long
def test_the_values_are_those_of_the_schema():
    tests = trace(), trace(0.5), trace(0.5, size=float("inf")), trace(2.0)  # the last is less than is predicted
    related, unrelated, open_one, weak = document(report_adapter(*tests))["claims"]
    assert (related["code"], related["verified"], related["paths"]) == ("adapter", True, [])
    assert (related["adapter"]["p_value"], related["adapter"]["permutations"]) == (0.001, 999)
    assert (related["adapter"]["effect"], related["adapter"]["least_effect"]) == pytest.approx((12.1, 9.2), abs=0.05)
    assert (weak["verdict"], weak["code"], weak["verified"], weak["exit_code"]) == ("RELATED", "weak", False, 3)
    assert weak["adapter"]["effect"] < weak["adapter"]["least_effect"]
    value, down = related["adapter"]["projections"]
    assert (value["projection"], value["permuted"]) == ("value", "dimensions of value heads")
    assert [layer["layer"] for layer in down["layers"]] == [0, 1]
    assert (unrelated["verdict"], unrelated["code"]) == ("UNRELATED", "unrelated")
    assert (open_one["verdict"], open_one["adapter"]["projections"][0]["layers"][0]["size"]) == ("UNDECIDED", None)


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_every_format_for_people_shows_the_verdict_the_projections_and_p(name):
    text = " ".join(FORMATS[name](report_adapter(trace()), True).split())
    assert ("VERIFIED adapter" in text, "0.001" in text) == (True, True)
    assert "value z 12.1" in text.lower()


LANGUAGE = pages.row(layers=6, mlp=pages.measured())
TOWER = replace(pages.row(base="org/tower", layers=4, mlp=pages.measured()), part="vision")


def test_a_row_for_each_of_several_parts_with_its_base_and_what_is_inherited():
    unread = replace(TOWER, part="audio", verdict=Verdict(Code.NO_BASE, "it stands nowhere"))
    finding = units.describe_parts([], report(LANGUAGE, TOWER, unread))
    share = finding.tables[0].rows[0][3]
    assert share.endswith("%")
    assert finding.tables[0].rows == (
        ("the model itself", "org/base", LANGUAGE.verdict.label, share),
        ("vision", "org/tower", TOWER.verdict.label, share),
        ("audio", "org/tower", "UNDECIDED no-base", ""),
    )
    assert [bar.label for bar in finding.picture.bars] == ["the model itself: org/base", "vision: org/tower"]
    verified = [(one["part"], one["verified"]) for one in finding.values]
    assert verified[1:] == [("vision", TOWER.verdict.verified), ("audio", False)]
    assert finding.values[2]["inherited"] is None
    stranger = replace(TOWER, verdict=replace(TOWER.verdict, code=Code.UNRELATED))
    bars = units.describe_parts([], report(LANGUAGE, stranger)).picture.bars
    assert [bar.pale for bar in bars] == [False, True], "a tower that comes from nowhere is drawn pale"
    for rows, is_table in (((LANGUAGE, TOWER), True), ((LANGUAGE,), False), ((TOWER,), False)):
        assert ("parts" in [maker.name for maker, _ in describe_report(report(*rows))]) is is_table
    hostile = replace(TOWER, claim=replace(TOWER.claim, base="<script>alert(1)</script>"), part="<b>vision")
    page = FORMATS["html"](report(LANGUAGE, hostile), True)
    assert not any(markup in page for markup in ("<script>alert", "<b>vision"))
