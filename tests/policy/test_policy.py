"""A policy accepts what it names until a day, asks for what it says, and decides what fails; it changes no verdict."""

import datetime

import pytest

from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.evidence.verdict import Code, ExitCode
from hf_lineage.policy.policy import FAILING, Policy, Waiver, status

DAY = datetime.date(2026, 11, 22)
VERIFIED, UNRELATED, ERROR, UNDECIDED, TRY_AGAIN = ExitCode


def waiver(expires=DAY, **more):
    return Waiver("org/base", Code.UNRELATED, "distilled from it", expires, **more)


def accepts(waiver, base="org/base", code=Code.UNRELATED, part="", model="me/model"):
    return Policy(accepted=(waiver,)).waiver(model, base, code, part, DAY) is waiver


def test_a_finding_is_accepted_until_the_end_of_its_day():
    assert accepts(waiver())
    assert not accepts(waiver(DAY - datetime.timedelta(days=1)))


def test_only_what_is_named_is_accepted():
    assert accepts(waiver(), base="Org/Base")
    assert not accepts(waiver(), base="org/base2")
    assert not accepts(waiver(), code=Code.INCONCLUSIVE)
    assert not accepts(waiver(), part="unet")
    assert accepts(waiver(part="unet"), part="unet")
    assert not accepts(waiver(part="unet"))


def test_a_model_is_known_by_its_name_whatever_its_revision():
    assert accepts(waiver(model="me/model"), model="Me/Model@v2")
    assert not accepts(waiver(model="me/model"), model="you/model")
    assert not accepts(waiver(model="me/model"), model="./model")


def test_one_that_expired_does_not_hide_one_that_counts():
    expired, counting = waiver(DAY - datetime.timedelta(days=1)), waiver()
    assert Policy(accepted=(expired, counting)).waiver("m", "org/base", Code.UNRELATED, "", DAY) is counting


def test_what_is_asked_for_and_is_not_so():
    policy = Policy(relations=("finetune", "quantized"))
    assert list(policy.lacks("finetune")) == []
    asked = "the policy asks for the relation finetune or quantized, but the claim declares"
    assert [*policy.lacks("merge"), *policy.lacks(None)] == [f"{asked} merge", f"{asked} none"]
    assert list(policy.lacks(None, declared=False)) == []
    assert list(Policy().lacks(None)) == []


@pytest.mark.parametrize(
    ("fail_on", "codes"), [("unrelated", (0, 1, 2, 0)), ("undecided", (0, 1, 2, 3)), ("never", (0, 0, 0, 0))]
)
def test_what_fails(fail_on, codes):
    assert tuple(int(status(code, False, fail_on)) for code in (VERIFIED, UNRELATED, ERROR, UNDECIDED)) == codes


def test_what_is_not_met_fails_whatever_else_does_unless_nothing_fails():
    assert status(VERIFIED, True, "unrelated") is UNDECIDED
    assert status(UNRELATED, True, "unrelated") is UNRELATED
    assert status(VERIFIED, True, "never") is VERIFIED


def test_every_word_for_what_fails_is_there():
    assert tuple(FAILING) == FAIL_ON
