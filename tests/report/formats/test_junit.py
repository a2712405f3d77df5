"""JUnit XML keeps to its schema; each claim is a test case that passed, failed, or was skipped."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lxml import etree

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.report import FORMATS
from tests.pages import measured, report, row

SCHEMA = Path(__file__).parents[2] / "data" / "schemas" / "junit-10.xsd"


def rendered(report):
    return FORMATS["junit"](report, False)


def test_it_keeps_to_the_schema_of_jenkins(any_report):
    etree.XMLSchema(etree.parse(SCHEMA)).assertValid(etree.fromstring(rendered(any_report).encode()))


def test_the_schema_would_notice_a_wrong_element(every_kind):
    wrong = etree.fromstring(rendered(every_kind).replace("testcase", "case").encode())
    assert not etree.XMLSchema(etree.parse(SCHEMA)).validate(wrong)


def test_each_claim_is_a_case_with_what_became_of_it(every_kind):
    root = ET.fromstring(rendered(every_kind))
    cases = root.findall(".//testcase")
    outcomes = [[child.tag for child in case if child.tag != "system-out"] for case in cases]
    assert outcomes == [[], ["failure"], ["skipped"], ["skipped"], ["skipped"], ["error"]]
    assert cases[0].attrib == {"classname": "model", "name": "base org/base (finetune)", "time": "0"}
    assert cases[1][0].attrib == {
        "type": "UNRELATED", "message": "other/base is UNRELATED (score 0.010, 0% inherited, p = 0.5)",
    }  # fmt: skip
    suite = root.find("testsuite")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["6", "1", "1", "3"]


@pytest.mark.parametrize(("accept", "outcome"), [((), ["skipped"]), (("part",), [])])
def test_what_is_related_in_part_is_skipped_with_the_reason_unless_that_is_accepted(accept, outcome):
    part = row(mlp=measured(share=0.3), criteria=Criteria(accept=accept))
    (case,) = ET.fromstring(rendered(report(part))).findall(".//testcase")
    assert [child.tag for child in case if child.tag != "system-out"] == outcome
    start = "org/base is RELATED in part (score 0.970, 30% (28-32%) inherited, p = 0.001): 30% of what its units write"
    assert case.find("system-out").text.startswith(start)


def test_explaining_adds_what_the_score_was_held_against(every_kind):
    assert "permutation null" in FORMATS["junit"](every_kind, True)
    assert "permutation null" not in FORMATS["junit"](every_kind, False)
