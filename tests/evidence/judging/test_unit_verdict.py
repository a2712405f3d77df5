from dataclasses import replace

import pytest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.unit_verdict import CALIBRATED, LARGEST, PAIRS, judge_framed, through
from hf_lineage.evidence.units.comparison import RESIDUAL, Frame
from tests.example_evidence import inheriting
from tests.unit_rows import changed, compared, model, moved, shuffled

BASE = model(1)
CHILD = changed(BASE, moved)
IN_ORDER, SHUFFLED, INDEPENDENT = (compared(BASE, one) for one in (CHILD, changed(CHILD, shuffled), model(2)))


def judged(framed, shares=None, **criteria):
    if shares is not None:
        framed = replace(framed, inherited=inheriting(*shares))
    verdict = judge_framed(framed, Criteria(**criteria))
    return verdict.label, verdict.verified, int(verdict.exit_code)


@pytest.mark.parametrize(
    ("framed", "shares", "expected"),
    [
        (IN_ORDER, (1, 1, 1, 1), ("VERIFIED inherited", True, 0)),
        (IN_ORDER, (1, 1, 0, 0), ("RELATED part", False, 3)),
        (IN_ORDER, (0.2, 0.2, 0.1, 0.1), ("RELATED part", False, 3)),
        (IN_ORDER, (0.1, 0.0, 0.0, 0.0), ("UNDECIDED inconclusive", False, 3)),
        (IN_ORDER, (0.0, 0.0, 0.0, 0.0), ("UNDECIDED inconclusive", False, 3)),
        (SHUFFLED, (1, 1, 1, 1), ("RELATED calibrated", False, 3)),
        (SHUFFLED, (1, 1, 0, 0), ("UNDECIDED inconclusive", False, 3)),
        (SHUFFLED, (CALIBRATED, 0, 0, 0), ("UNRELATED", False, 1)),
        (INDEPENDENT, (0, 0, 0, 0), ("UNRELATED", False, 1)),
    ],
)
def test_the_verdict_by_order_and_share(framed, shares, expected):
    assert judged(framed, shares) == expected


def test_a_few_copied_units_in_perfect_order_verify_nothing():
    verdict = judge_framed(replace(IN_ORDER, inherited=inheriting(0.05, 0.05, 0.0, 0.0)), Criteria())
    assert "a few copied units or a common initialisation can cause that" in verdict.reason


def test_calibrated_evidence_counts_only_where_it_is_accepted():
    verdict = judge_framed(SHUFFLED, Criteria())
    assert (verdict.label, int(verdict.exit_code)) == ("RELATED calibrated", 3)
    assert judge_framed(SHUFFLED, Criteria(accept=("calibrated",))).exit_code == 0
    assert f"none of {PAIRS:,} pairs of independent models has more than {LARGEST:.0%}" in verdict.reason


def test_without_tokens_the_share_alone_is_no_evidence():
    framed = replace(SHUFFLED, frame=Frame(RESIDUAL))
    assert judged(framed) == ("UNDECIDED inconclusive", False, 3)
    assert through(framed) == "in the coordinates of the residual stream"
    assert through(SHUFFLED) == "through 256 tokens that both models know by their number"


def test_more_can_be_asked_for_than_half():
    assert judged(IN_ORDER, (1, 1, 1, 0), min_share=0.8)[0] == "RELATED part"
    assert judged(SHUFFLED, (1, 1, 1, 0), min_share=0.8)[0] == "UNDECIDED inconclusive"
    assert judged(IN_ORDER, (1, 1, 0, 0), accept=("part",))[2] == 0


def test_p_that_is_not_significant_after_all_tests_decides_nothing():
    assert judged(replace(IN_ORDER, tests=3), (0.0,) * 4)[0] == "UNRELATED"


def test_units_that_undo_each_other_do_not_make_a_model_unrelated():
    assert INDEPENDENT.remains > 0.8
    assert judged(replace(INDEPENDENT, remains=0.3), (0, 0, 0, 0)) == ("UNDECIDED inconclusive", False, 3)
    assert judged(replace(IN_ORDER, remains=0.3), (1, 1, 1, 1)) == ("VERIFIED inherited", True, 0)
