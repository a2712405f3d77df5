"""A policy accepts what it names until a day, asks for what it says, and decides what fails; it changes no verdict."""

import datetime

import pytest

from hf_lineage.errors import OptionError
from hf_lineage.evidence.verdict import VERIFYING, Code, ExitCode
from hf_lineage.policy import ACCEPTABLE, MOST, Policy, Waiver, parse, status

DAY = datetime.date(2026, 11, 22)

VERIFIED, UNRELATED, ERROR, UNDECIDED, TRY_AGAIN = ExitCode


YESTERDAY = DAY - datetime.timedelta(days=1)


def waiver(expires=DAY, **more):
    return Waiver("org/base", Code.UNRELATED, "distilled from it", expires, **more)


@pytest.mark.parametrize(("one", "finding", "accepted"), [
    (waiver(), {}, True), (waiver(YESTERDAY), {}, False),
    (waiver(), {"base": "Org/Base"}, True), (waiver(), {"base": "org/base2"}, False),
    (waiver(), {"code": Code.INCONCLUSIVE}, False), (waiver(), {"part": "unet"}, False),
    (waiver(part="unet"), {"part": "unet"}, True), (waiver(part="unet"), {}, False),
    (waiver(model="me/model"), {"model": "Me/Model@v2"}, True),
    (waiver(model="me/model"), {"model": "you/model"}, False), (waiver(model="me/model"), {"model": "./model"}, False),
])  # fmt: skip
def test_only_what_is_named_is_accepted_until_the_end_of_its_day(one, finding, accepted):
    """One that expired does not hide one that counts."""
    asked = {"model": "me/model", "base": "org/base", "code": Code.UNRELATED, "part": "", "today": DAY} | finding
    assert Policy(accepted=(waiver(YESTERDAY), one)).waiver(**asked) is (one if accepted else None)


@pytest.mark.parametrize(
    ("fail_on", "codes"), [("unrelated", (0, 1, 2, 0)), ("undecided", (0, 1, 2, 3)), ("never", (0, 0, 0, 0))]
)
def test_what_fails_and_what_is_asked_for_and_not_so_does_unless_nothing_fails(fail_on, codes):
    assert tuple(int(status(code, False, fail_on)) for code in (VERIFIED, UNRELATED, ERROR, UNDECIDED)) == codes
    nothing = fail_on == "never"
    assert status(VERIFIED, True, fail_on) is (VERIFIED if nothing else UNDECIDED)
    assert status(UNRELATED, True, fail_on) is (VERIFIED if nothing else UNRELATED)
    policy = Policy(relations=("finetune", "quantized"))
    asked = "the policy asks for the relation finetune or quantized, but the claim declares"
    assert [*policy.lacks("merge"), *policy.lacks(None)] == [f"{asked} merge", f"{asked} none"]
    assert [*policy.lacks("finetune"), *policy.lacks(None, declared=False), *Policy().lacks(None)] == []


WHOLE = """
# who may change this file decides what passes
fail-on: undecided
relation: [finetune, quantized]
require: strict
own-code: refuse
undeclared-parent: accept
accepted:
  - base: org/base
    code: unrelated
    reason: >-
      the student was trained from fresh weights
      on its answers
    expires: 2027-03-31
  - {base: org/other, code: part, reason: half is new, expires: 2027-01-01, model: me/model, part: unet}
"""


def entry(**changes):
    values = {"base": "a/b", "code": "unrelated", "reason": "x", "expires": "2027-01-01"} | changes
    values = {key: value for key, value in values.items() if value is not None}
    return "accepted: [{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}]"


def test_everything_that_a_file_may_hold():
    why = "the student was trained from fresh weights on its answers"
    accepted = (
        Waiver("org/base", Code.UNRELATED, why, datetime.date(2027, 3, 31)),
        Waiver("org/other", Code.PART, "half is new", datetime.date(2027, 1, 1), "me/model", "unet"),
    )
    said = {"requires": "strict", "own_code": "refuse", "undeclared_parent": "accept", "accepted": accepted}
    policy = Policy(source="lineage.yaml", fail_on="undecided", relations=("finetune", "quantized"), **said)
    assert parse(WHOLE, "lineage.yaml") == policy
    assert parse("relation: merge", "p").relations == ("merge",)
    assert {*Code} - {*ACCEPTABLE.values()} == VERIFYING | {Code.UNDECLARED}
    two = entry()[:-1] + ", " + entry(base="c/d").partition("[")[2]
    assert len(parse(two, "p").accepted) == 2, "the same word as a key of two mappings is no key twice"
    (shown,) = parse(entry(reason='"\\u202e::error:: \\x1b[31m"'), "p").accepted
    assert shown.reason == r"\u202e:\x3aerror:\x3a \x1b[31m"


KEYS = "accepted, relation, require, own-code, undeclared-parent, fail-on"


@pytest.mark.parametrize(("text", "told"), [
    ("", f"p must hold keys and values; its keys are {KEYS}; correct it"),
    ("- a", "p must hold keys and values;"),
    ("accept: []", f"p: unknown key accept; the keys are {KEYS}"),
    ("fail_on: never", "p: unknown key fail_on"),
    ("<<: {fail-on: never}", "p: unknown key <<"),
    ("fail-on: always", "p: fail-on must be one of unrelated, undeclared-parent, undecided, never, not always"),
    ("fail-on: [never]", "p: fail-on must be one of"),
    ("relation: []", "p: relation must be one of"),
    ("relation: [finetune, child]", "p: relation must be one of adapter, finetune, merge, quantized, not child"),
    ("accepted: all", f"p: accepted must be a list of at most {MOST} findings"),
    (f"accepted: [{', '.join(['{}'] * (MOST + 1))}]", "p: accepted must be a list of at most 100 findings"),
    ("accepted: [a/b]", "p: accepted, entry 1 must hold keys and values;"),
    (entry(until="x"), "p: accepted, entry 1: unknown key until; the keys are base, code, reason, expires"),
    (entry(reason=None), "p: accepted, entry 1 has no reason; each names base, code, reason, expires"),
    (entry(expires=None), "p: accepted, entry 1 has no expires"),
    (entry(reason="''"), "p: accepted, entry 1: reason must be a text of 1 to 500 characters"),
    (entry(reason="y" * 501), "p: accepted, entry 1: reason must be a text"),
    (entry(code="inherited"), "p: accepted, entry 1: code must be one of listed, calibrated, weak, part,"),
    (entry(expires="2027-02-30"), "p: accepted, entry 1: expires must be a day such as 2027-03-31, not 2027-02-30"),
    (entry(expires="2027-W01-1"), "p: accepted, entry 1: expires must be a day"),
    (entry(model="./here"), "p: accepted, entry 1: model must be a name of the Hub such as org/model, not ./here"),
    ("fail-on: unrelated\nfail-on: never", "p, line 2: the key fail-on is here twice; correct it"),
    (entry()[:-2] + ", code: part}]", "p, line 1: the key code is here twice"),
    ("fail-on: &a never", "p, line 1: anchors, aliases and tags are not allowed here; correct it"),
    ("fail-on: !!str never", "p, line 1: anchors, aliases and tags are not allowed here"),
    ("{{}: a}", "p, line 1: found unhashable key"),
    ("a: [", "p, line "),
    ("[" * 200, "p, line 1: more than 100 lists and mappings inside each other"),
])  # fmt: skip
def test_what_is_not_read_is_refused_with_its_place(text, told):
    with pytest.raises(OptionError) as refused:
        parse(text, "p")
    assert str(refused.value).startswith(told)
    assert str(refused.value).isprintable()
