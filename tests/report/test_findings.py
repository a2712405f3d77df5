"""A finding is a module and a line of the table: every format but a summary prints it, and none needs it.

Sentences of findings stand in front of what was read for them, each with the name of the base.
"""

import html
import json
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options, check
from hf_lineage.checking.result import Bar, Bars, Finding, Table
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.report import FORMATS, findings
from hf_lineage.report.findings import describe_claim, reasons, state_all, summarize
from hf_lineage.report.verdicts import texts
from tests.models import EXAMPLES
from tests.pages import document, measured, report, row, words
from tests.report import families

CLAIM = Finding(
    "The toy of a claim",
    "org/base",
    ("a toy was found in it",),
    ("the toy is red",),
    (Table("toys", ("Toy", "Wheels"), (("car", "4"),), (1,)),),
    Bars((Bar("redness", 0.5, 0.4, 0.6),), "How red the toy is."),
    {"wheels": 4},
)
WHOLE = replace(CLAIM, title="The toys of all claims", about="", sentences=("toys were found",))

HUB = Options(local_hub=EXAMPLES, seed=1, permutations=199)
ONE = row(mlp=measured())


@pytest.fixture
def toys(monkeypatch):
    """The tables of findings with one more of each claim, and one of the report."""
    for table, finding in (("OF_CLAIM", CLAIM), ("OF_REPORT", WHOLE)):
        toy = findings.Maker("toy", lambda _about: True, lambda *_about, finding=finding: finding)
        monkeypatch.setattr(findings, table, (*getattr(findings, table), toy))


LONG = [form for form in FORMATS if form != "github"]
"""Formats that have every finding; a summary has those with a brief sentence."""


@pytest.fixture(scope="module")
def merge():
    """What is found of a merge and of a claim that is contradicted, so that formats of failures have an entry."""
    report = check("fern/llama-merge-a-b", options=HUB)
    return replace(report, rows=(*report.rows, row("org/other", mlp=measured(score=0.005, p=0.5, share=0.0))))


def rendered(form, report):
    """A report without what its format puts between words and around marks."""
    text = html.unescape(FORMATS[form](report, True)).replace("\N{NO-BREAK SPACE}", " ")
    return " ".join(text.replace("\\", "").split()).lower()


@pytest.mark.parametrize("form", LONG)
def test_a_new_finding_is_in_every_format_but_the_short_one(form, merge, toys):
    text = rendered(form, merge)
    assert "a toy was found in it" in text
    assert "toys were found" in text
    if form in ("text", "markdown", "html"):
        shown = ("the toy of a claim", "the toy is red", "wheels", "car", "redness", "0.40")
        assert all(word in text for word in shown)
    if form in ("json", "intoto", "intoto-predicate"):
        document = json.loads(FORMATS[form](merge, False))
        document = document.get("predicate", document)
        for found, title in ((document["findings"], WHOLE.title), (document["claims"][0]["findings"], CLAIM.title)):
            assert (found["toy"]["title"], found["toy"]["values"]) == (title, {"wheels": 4})
            assert found["toy"]["tables"][0]["rows"] == [["car", "4"]]
            assert found["toy"]["picture"]["bars"][0]["label"] == "redness"


def test_what_was_found_stands_before_notes_or_what_explaining_adds_if_alone():
    *_, found, note = reasons(report(replace(ONE, unmet=("too little",), notes=("a note",))))
    assert (found, note) == ("org/base: too little", "a note")
    assert list(state_all(report(ONE))) == ["org/base: All 6 layers come from it"]


def sentences(claim):
    return [words for maker, one in describe_claim(report(), claim) if maker.name == "descent" for words in one.details]


@pytest.mark.parametrize(
    ("shares", "of", "said"),
    [
        ([1, 1, 1], None, "All 3 layers come from it"),
        ([0, 1, 0], None, "Layer 1 of 3 comes from it; the other 2 do not"),
        ([1, 1, 0], None, "Layers 0-1 of 3 come from it; the other one does not"),
        ([0.5, 0.5, 0.5], None, "None of the 3 layers comes from it by more than half"),
        ([1, 1, 1], 32, "All 3 layers that were read, of 32, come from it"),
        ([1, 0, 1], 32, "Of the 3 layers that were read, of 32, layers 0, 31 come from it"),
        ([0, 0, 0], 32, "None of the 3 layers that were read, of 32, comes from it by more than half"),
    ],
)
def test_layers_are_counted_and_named_and_nothing_is_said_of_unread_ones(shares, of, said):
    early = {"analyses": 3, "layers": ((0, 9, 31),) * 2} if of else {}
    evidence = measured(3, 3, **early)
    evidence = replace(evidence, inherited=replace(evidence.inherited, by_layer=np.array(shares, dtype=float)))
    assert sentences(row(layers=of, mlp=evidence)) == [said]


def test_where_nothing_is_known_or_nothing_shared_nothing_is_said():
    assert sentences(row(mlp=measured(share=None))) == []
    assert sentences(row(mlp=measured(score=0.0, p=0.5))) == []


def test_programs_get_the_same_as_values():
    (made,) = check("heron/llama-int8-rounded", options=HUB).rows
    values = findings.describe_relation(made.derivation, made, report()).values
    expected = {"means": ["quantized"], "bits": 8, "zeros": None, "rank": None, "changed": 12, "matrices": 12}
    assert {key: values[key] for key in expected} == expected


@pytest.mark.parametrize("code", [Code.PART, Code.UNRELATED, Code.INCONCLUSIVE, Code.NO_BASE])
def test_a_claim_has_its_title_its_reason_and_what_to_do_next(code):
    text = texts()[code]
    assert list(summarize(report(replace(ONE, verdict=Verdict(code, "org/base: a reason; a detail"))))) == [
        text.title, "A reason; a detail.", f"Next: {text.next[0]}",
    ]  # fmt: skip


def test_a_verified_claim_says_what_is_usual_and_more_doubts_than_two_are_counted():
    assert list(summarize(report(ONE))) == [
        "All 6 layers come from it. Unrelated models of this size score at most 0.022.", "Next: Nothing to do.",
    ]  # fmt: skip
    noted = replace(ONE, notes=("one", "two", "three", "four"))
    assert list(summarize(report(noted)))[1] == "One. Two. 2 more: --explain."


def test_what_a_policy_refuses_is_never_left_without_advice():
    advice = "Do what the policy asks, or change the policy."
    refused = replace(ONE, unmet=("the policy asks for merges",))
    assert list(summarize(report(refused)))[1:] == ["The policy asks for merges.", f"Next: {advice}"]
    told, page = document(report(ONE, refused)), words("html", report(refused))
    assert told["claims"][1]["next"][:2] == told["next"][:2] == [advice, "The policy asks for merges."]
    assert told["claims"][0]["next"][0] == "Nothing to do." not in (*told["next"], *told["claims"][1]["next"])
    assert (advice in page, "Nothing to do" in page) == (True, False)


def test_of_several_claims_every_line_names_its_base_and_advice_stands_last():
    lines = list(summarize(families.merge()))
    assert [line for line in lines if line.startswith("Next for ")] == lines[-3:]
    assert lines[-3] == "Next for org/one, org/two: Nothing to do."
    assert lines[0].startswith("org/one: All 6 layers come from it. It gave 0.70 (0.69 to 0.71) of the merge along ")
    assert list(summarize(report(conflicts=("a declares b; c declares d",))))[1] == (
        "Conflicting claims: a declares b; c declares d."
    )
