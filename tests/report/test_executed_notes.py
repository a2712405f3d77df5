"""What a policy accepts stays in every report, with its reason and its last day, and so does what a claim lacks."""

import datetime
import json

import pytest

from hf_lineage.checking.report import under
from hf_lineage.evidence.verdict import Code
from hf_lineage.policy import Policy, Waiver
from hf_lineage.report import FORMATS
from tests.pages import HOSTILE, document, measured, report, row
from tests.report.test_sarif import validate

DAY, TODAY = datetime.date(2027, 3, 31), datetime.date(2026, 11, 22)
WHY = "a student of its answers"
TOLD = (*("text", "json", "markdown", "html", "sarif", "cyclonedx", "github"),)
"""The formats with room for a sentence."""


def judged(reason=WHY, today=TODAY, **more):
    """A contradicted claim that is accepted, and a true one of another relation than is asked for."""
    policy = Policy("p.yaml", (Waiver("org/base", Code.UNRELATED, reason, DAY),), **more)
    rows = row("org/base", mlp=measured(score=0.005, p=0.5, share=0.0)), row("org/other", mlp=measured())
    return under(report(*rows), policy, today)


@pytest.mark.parametrize("form", TOLD)
def test_every_report_tells_the_verdict_the_reason_and_the_day(form):
    text = " ".join(FORMATS[form](judged(), False).split())
    assert all(word in text for word in ("UNRELATED", WHY, "2027")), text


@pytest.mark.parametrize("form", TOLD)
def test_every_report_tells_what_was_accepted_until_a_day_that_is_past(form):
    expired = judged(today=datetime.date(2027, 4, 1))
    text = " ".join(FORMATS[form](expired, False).split())
    assert all(word in text for word in ("UNRELATED", "until 2027-03-31, and that day has passed")), text
    assert (expired.status, expired.rows[0].waiver) == (1, None)


def test_what_people_see_first_tells_it():
    """The annotation of a runner and the alert of a code scanner."""
    expired, past = (
        judged(today=datetime.date(2027, 4, 1)),
        ("; accepted only until 2027-03-31, and that day has passed"),
    )
    assert past in json.loads(FORMATS["github"](expired, False))["message"]
    first, _ = json.loads(FORMATS["sarif"](expired, False))["runs"][0]["results"]
    assert (past in first["message"]["text"], first["level"], "suppressions" in first) == (True, "error", False)


def test_machines_are_told_what_was_found_and_what_was_made_of_it():
    told = document(judged())
    assert (told["verdict"], told["exit_code"]) == ("UNRELATED", 0), "the policy decides what the command returns"
    assert told["policy"] == {
        "source": "p.yaml", "fail_on": None, "require": None, "own_code": "accept",
        "undeclared_parent": None, "relations": [],
        "accepted": 1,
    }  # fmt: skip
    first, second = told["claims"]
    assert (first["verdict"], first["exit_code"], first["waiver"]) == (
        "UNRELATED", 1, {"reason": WHY, "expires": "2027-03-31"},
    )  # fmt: skip
    assert (second["waiver"], second["unmet"]) == (None, [])


def test_sarif_has_a_result_that_is_suppressed_and_one_that_is_no_pass_any_more():
    document = json.loads(FORMATS["sarif"](judged(relations=("merge",)), False))
    validate(document)
    first, second = document["runs"][0]["results"]
    assert first["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": f"{WHY} (accepted until 2027-03-31)"}
    ]
    assert (second["kind"], second["level"], "suppressions" in second) == ("fail", "warning", False)


def test_the_runner_is_told_what_fails():
    told = json.loads(FORMATS["github"](judged(fail_on="never"), False))
    assert (told["exit_code"], told["unaccepted"], told["unmet"], told["fail_on"]) == (1, 0, False, "never")
    assert told["outputs"]["verdict"] == "UNRELATED"


@pytest.mark.parametrize("form", ["markdown", "html", "sarif"])
def test_a_reason_is_no_markup(form):
    assert "<script" not in FORMATS[form](judged(HOSTILE[:400]), False)
