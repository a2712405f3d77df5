from dataclasses import replace

import pytest

from hf_lineage import Options
from hf_lineage.checking.api import Report
from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.evaluation import judge
from hf_lineage.evidence.judging.unit_verdict import judge_framed
from hf_lineage.report import renderer
from hf_lineage.report.findings.table import state_outcome
from hf_lineage.report.words import wording
from tests.evidence.judging.test_unit_verdict import IN_ORDER, INDEPENDENT, SHUFFLED
from tests.example_evidence import evidence
from tests.pages import document

UNRELATED = judge({"mlp": evidence(score=0.01, p=0.5, shares=(0.0,) * 4)}, Criteria())


def row(framed, first=UNRELATED):
    verdict = judge_framed(framed, Criteria())
    verdict = replace(verdict, evidence=first.evidence, by_path=first.by_path) if first else verdict
    return Row(Claim("org/base", "finetune", ("README.md",)), verdict)


def report(*rows):
    return Report("org/model", None, rows, (), Options())


EVERY = report(row(IN_ORDER), row(SHUFFLED), row(INDEPENDENT), row(IN_ORDER, None), row(INDEPENDENT, None))


def test_the_table_has_a_line_for_the_units():
    lines = list(wording.cells(row(SHUFFLED)))
    assert [line[2:] for line in lines] == [
        ("mlp", "0.010", "0%", "0.5", "UNRELATED"),
        ("units", "-", "100%", wording.order_p(SHUFFLED), "RELATED calibrated"),
    ]
    (line,) = wording.cells(row(IN_ORDER, None))
    assert line == ("org/base", "finetune", "units", "-", "100%", "0.005", "VERIFIED inherited")


def test_the_outcome_names_the_share_of_units_and_no_score():
    outcome = state_outcome(row(IN_ORDER))
    assert outcome.startswith("org/base is VERIFIED inherited (100% of its units inherited, p = 0.005): the residual ")
    assert wording.best(row(IN_ORDER)) is None
    assert wording.p_value(row(IN_ORDER)) == 0.005
    assert wording.inherited_share(row(SHUFFLED)) == pytest.approx(1)
    assert wording.p_value(row(INDEPENDENT)) == 0.5


def test_the_json_fits_its_schema_and_says_what_the_units_show():
    claims = document(EVERY)["claims"]
    codes = ["inherited", "calibrated", "unrelated", "inherited", "unrelated"]
    assert [claim["code"] for claim in claims] == codes
    assert claims[0]["units"]["p_value_adjusted"] == 0.005
    assert claims[0]["units"]["calibration"]["pairs"] > 1000


@pytest.mark.parametrize("name", ["text", "markdown", "html", "sarif", "json"])
def test_every_format_shows_it(name):
    assert "calibrated" in renderer(name)(EVERY, explain=True)
