"""A policy file holds what is read of it, and nothing else: whatever nobody reads is refused in one line."""

import datetime

import pytest

from hf_lineage.errors import OptionError
from hf_lineage.evidence.verdict import VERIFYING, Code
from hf_lineage.policy.file import ACCEPTABLE, MOST, parse
from hf_lineage.policy.policy import Policy, Waiver

WHOLE = """
# who may change this file decides what passes
fail-on: undecided
relation: [finetune, quantized]
accepted:
  - base: org/base
    code: unrelated
    reason: >-
      the student was trained from fresh weights
      on its answers
    expires: 2027-03-31
  - {base: org/other, code: part, reason: half is new, expires: 2027-01-01, model: me/model, part: unet}
"""
ENTRY = {"base": "a/b", "code": "unrelated", "reason": "x", "expires": "2027-01-01"}


def entry(**changes):
    values = {key: value for key, value in (ENTRY | changes).items() if value is not None}
    return "accepted: [{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}]"


def test_everything_that_a_file_may_hold():
    assert parse(WHOLE, "lineage.yaml") == Policy(
        source="lineage.yaml",
        fail_on="undecided",
        relations=("finetune", "quantized"),
        accepted=(
            Waiver(
                "org/base",
                Code.UNRELATED,
                "the student was trained from fresh weights on its answers",
                datetime.date(2027, 3, 31),
            ),
            Waiver("org/other", Code.PART, "half is new", datetime.date(2027, 1, 1), "me/model", "unet"),
        ),
    )


def test_one_relation_needs_no_list():
    assert parse("relation: merge", "p").relations == ("merge",)


def test_every_code_that_verifies_no_claim_can_be_accepted():
    assert {*Code} - {*ACCEPTABLE.values()} == VERIFYING | {Code.UNDECLARED}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "",
            "p must hold keys and values; its keys are accepted, relation, require, own-code, "
            "undeclared-parent, fail-on; correct it",
        ),
        ("- a", "p must hold keys and values;"),
        (
            "accept: []",
            "p: unknown key accept; the keys are accepted, relation, require, own-code, undeclared-parent, fail-on",
        ),
        ("fail_on: never", "p: unknown key fail_on"),
        ("<<: {fail-on: never}", "p: unknown key <<"),
        ("fail-on: always", "p: fail-on must be one of unrelated, undeclared-parent, undecided, never, not always"),
        ("fail-on: [never]", "p: fail-on must be one of"),
        ("evidence: exact", "p: unknown key evidence; the keys are"),
        ("licence: [mit]", "p: unknown key licence; the keys are"),
        ("relation: []", "p: relation must be one of"),
        ("relation: [finetune, child]", "p: relation must be one of adapter, finetune, merge, quantized, not child"),
        ("accepted: all", f"p: accepted must be a list of at most {MOST} findings"),
        ("accepted: [a/b]", "p: accepted, entry 1 must hold keys and values;"),
        (entry(until="x"), "p: accepted, entry 1: unknown key until; the keys are base, code, reason, expires"),
        (entry(reason=None), "p: accepted, entry 1 has no reason; each names base, code, reason, expires"),
        (entry(expires=None), "p: accepted, entry 1 has no expires"),
        (entry(reason="''"), "p: accepted, entry 1: reason must be a text of 1 to 500 characters"),
        (entry(reason="y" * 501), "p: accepted, entry 1: reason must be a text"),
        (entry(code="inherited"), "p: accepted, entry 1: code must be one of listed, calibrated, weak, part,"),
        (entry(expires="2027-02-30"), "p: accepted, entry 1: expires must be a day such as 2027-03-31, not 2027-02-30"),
        (entry(expires="2027-W01-1"), "p: accepted, entry 1: expires must be a day"),
        (entry(expires="never"), "p: accepted, entry 1: expires must be a day"),
        (entry(model="./here"), "p: accepted, entry 1: model must be a name of the Hub such as org/model, not ./here"),
        ("fail-on: unrelated\nfail-on: never", "p, line 2: the key fail-on is here twice; correct it"),
        (entry()[:-2] + ", code: part}]", "p, line 1: the key code is here twice"),
        ("fail-on: &a never", "p, line 1: anchors, aliases and tags are not allowed here; correct it"),
        ("fail-on: !!str never", "p, line 1: anchors, aliases and tags are not allowed here"),
        ("{{}: a}", "p, line 1: found unhashable key"),
        ("a: [", "p, line "),
        ("[" * 200, "p, line 1: more than 100 lists and mappings inside each other"),
    ],
)
def test_what_is_not_read_is_refused_with_its_place(text, told):
    with pytest.raises(OptionError) as refused:
        parse(text, "p")
    assert str(refused.value).startswith(told)
    assert str(refused.value).isprintable()


def test_a_list_of_too_many_is_refused():
    with pytest.raises(OptionError, match="at most 100 findings"):
        parse(f"accepted: [{', '.join(['{}'] * (MOST + 1))}]", "p")


def test_the_same_word_as_a_key_of_two_mappings_is_no_key_twice():
    assert len(parse(entry()[:-1] + ", " + entry(base="c/d").partition("[")[2], "p").accepted) == 2


def test_what_a_reason_says_is_shown_and_does_nothing():
    (waiver,) = parse(entry(reason='"\\u202e::error:: \\x1b[31m"'), "p").accepted
    assert waiver.reason == r"\u202e:\x3aerror:\x3a \x1b[31m"
