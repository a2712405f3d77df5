"""The lines below the table of a report without `--explain`: few, short, and in line with the exit code."""

from dataclasses import replace

import pytest

from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report.findings import summarize
from hf_lineage.report.verdicts import texts
from tests.pages import document, measured, report, row, words
from tests.report import families

ONE = row(mlp=measured())


@pytest.mark.parametrize("code", [Code.PART, Code.UNRELATED, Code.INCONCLUSIVE, Code.NO_BASE])
def test_a_claim_has_its_title_its_reason_and_what_to_do_next(code):
    text = texts()[code]
    assert list(summarize(report(replace(ONE, verdict=Verdict(code, "org/base: a reason; a detail"))))) == [
        text.title, "A reason; a detail.", f"Next: {text.next[0]}",
    ]  # fmt: skip


def test_a_verified_claim_says_what_comes_from_the_base_and_what_is_usual():
    assert list(summarize(report(ONE))) == [
        "All 6 layers come from it. Unrelated models of this size score at most 0.022.", "Next: Nothing to do.",
    ]  # fmt: skip


def test_what_a_policy_refuses_is_never_left_without_advice():
    refused, advice = (
        replace(ONE, unmet=("the policy asks for merges",)),
        "Do what the policy asks, or change the policy.",
    )
    assert list(summarize(report(refused)))[1:] == ["The policy asks for merges.", f"Next: {advice}"]
    told, page = document(report(ONE, refused)), words("html", report(refused))
    assert told["claims"][1]["next"][:2] == told["next"][:2] == [advice, "The policy asks for merges."]
    assert told["claims"][0]["next"][0] == "Nothing to do." not in (*told["next"], *told["claims"][1]["next"])
    assert (advice in page, "Nothing to do" in page) == (True, False)


def test_of_more_doubts_than_two_the_others_are_counted():
    noted = replace(ONE, notes=("one", "two", "three", "four"))
    assert list(summarize(report(noted)))[1] == "One. Two. 2 more: --explain."


def test_of_several_claims_every_line_names_its_base_and_advice_stands_last():
    lines = list(summarize(families.merge()))
    assert [line for line in lines if line.startswith("Next for ")] == lines[-3:]
    assert lines[-3] == "Next for org/one, org/two: Nothing to do."
    assert lines[0].startswith("org/one: All 6 layers come from it. It gave 0.70 (0.69 to 0.71) of the merge along ")


def test_remarks_on_the_whole_model_are_sentences():
    assert list(summarize(report(conflicts=("a declares b; c declares d",))))[1] == (
        "Conflicting claims: a declares b; c declares d."
    )
