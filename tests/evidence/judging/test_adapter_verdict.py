"""The verdict on an adapter: RELATED by its own test, UNRELATED only where the test would have found the trace."""

import numpy as np
import pytest

from hf_lineage.evidence.adapters import gradient_alignment as adapter_trace
from hf_lineage.evidence.adapters.blocks import block
from hf_lineage.evidence.adapters.gradient_alignment import Trace
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.adapter_verdict import (
    FIRST,
    MOST,
    VERIFIED,
    clear,
    judge_trace,
    least_effect,
    measure_trace,
)
from hf_lineage.evidence.verdict import Code, ExitCode

CLEAR = 9.0
"""A statistic that lies 29 standard deviations above those of `measured`."""


def measured(observed, directions=400.0, analyses=1, above=0, size=0.0):
    """A test of one matrix: permutations between 0 and 1, 999 for each analysis, some of which reach the statistic."""
    ratios = np.concatenate([[observed], np.full(above, observed), np.linspace(0, 1, 1000 * analyses - 1 - above)])
    return Trace(("value",), (0,), ratios[:, None], np.array([directions]), np.full(1, size), 0, analyses)


def test_a_trace_makes_the_adapter_related_and_verifies_its_claim():
    outcome = judge_trace(measured(CLEAR), Criteria())
    assert (outcome.code, outcome.word, outcome.verified) == (Code.ADAPTER, "VERIFIED", True)
    assert outcome.exit_code is ExitCode.VERIFIED
    assert outcome.reason == (
        "the adapter carries the trace of this base: it was trained on it or a near relative, or extracted from a "
        "difference to it"
    )


WEAK = {
    "p alone": (measured(CLEAR, directions=4.0, above=4), "p is 0.005, and at most 0.001 verifies"),
    "an effect less than predicted": (
        measured(6.0),
        "the effect is 19.0 standard deviations, and at least 24.0 verify",
    ),
    "an effect that chance may give where next to nothing is predicted": (
        measured(2.0, size=np.inf),
        "the effect is 5.2 standard deviations, and at least 5.4 verify",
    ),
    "both": (
        measured(1.0, above=4),
        "p is 0.006, and at most 0.001 verifies; the effect is 1.7 standard deviations, and at least 24.0 verify",
    ),
}


@pytest.mark.parametrize(("trace", "doubts"), WEAK.values(), ids=WEAK)
def test_what_fails_either_half_of_the_rule_is_related_weakly_which_verifies_nothing(trace, doubts):
    outcome = judge_trace(trace, Criteria())
    assert (outcome.code, outcome.word, outcome.verified) == (Code.WEAK, "RELATED", False)
    assert outcome.exit_code is ExitCode.UNDECIDED
    assert outcome.reason == f"the adapter shows a trace of this base, but a weak one: {doubts}"


def test_a_weak_trace_passes_where_it_is_accepted_and_is_not_verified_by_that():
    codes = {}
    for accept in ("weak", "part", "embedding"):
        outcome = judge_trace(measured(2.0), Criteria(accept=(accept,)))
        codes[accept] = outcome.exit_code
        assert not outcome.verified
    assert codes == {"weak": ExitCode.VERIFIED, "part": ExitCode.UNDECIDED, "embedding": ExitCode.UNDECIDED}


def test_who_asks_for_a_smaller_alpha_is_told_verified_by_no_larger_p():
    one = measured(CLEAR, analyses=2)
    assert one.p_value == VERIFIED
    assert judge_trace(one, Criteria(alpha=0.001)).verified
    assert judge_trace(one, Criteria(alpha=0.0009)).word == "UNRELATED"
    assert least_effect(one, 0.0001) == least_effect(one, 0.01) == one.predicted
    hardly = measured(CLEAR, directions=1.0)
    assert least_effect(hardly, 0.0001) > least_effect(hardly, 0.001) == least_effect(hardly, 0.01)


def test_no_trace_is_unrelated_where_the_power_is_predicted_to_be_large():
    outcome = judge_trace(measured(0.5), Criteria())
    assert (outcome.word, outcome.verified) == ("UNRELATED", False)
    assert "one trained on it would show it with a predicted probability above 0.99" in outcome.reason


def test_no_trace_is_inconclusive_where_the_power_is_small_and_says_how_small():
    outcome = judge_trace(measured(0.5, directions=4.0), Criteria())
    assert outcome.word == "UNDECIDED"
    assert f"only with a predicted probability of {outcome.trace.power(0.01):.2f}" in outcome.reason


def test_a_start_that_depends_on_the_order_of_rows_decides_nothing():
    outcome = judge_trace(measured(CLEAR), Criteria(), "loftq")
    assert outcome.word == "UNDECIDED"
    assert outcome.reason.startswith("the adapter started from loftq")


def test_alpha_decides():
    assert judge_trace(measured(CLEAR), Criteria(alpha=0.001)).word == "VERIFIED"
    assert judge_trace(measured(CLEAR), Criteria(alpha=0.0005)).word == "UNRELATED"


@pytest.mark.parametrize(
    ("trace", "stands"),
    [
        (measured(CLEAR, analyses=2), True),
        (measured(2.0, analyses=2), False),
        (measured(0.5, analyses=2), True),
        (measured(0.95, analyses=2), False),
        (measured(0.5, directions=4.0, analyses=2), False),
    ],
)
def test_more_layers_are_read_unless_the_verdict_on_a_few_is_clear(trace, stands):
    assert clear(judge_trace(trace, Criteria())) is stands


def leaning(by, seed=0):
    """A block of one direction in 24 rows, which lean by this much on the matrix that their gradient passed through."""
    random = np.random.default_rng(seed)
    written, through = random.normal(size=(2, 24))
    return block("up", 0, "hidden units", written[None, :, None], (by * written + through)[None, None], flips=True)


def by_first_permutations(low, high, seeds=range(2000), analyses=1):
    """Blocks whose p by the first permutations lies between two bounds."""
    for seed in seeds:
        one = leaning(0.5, seed)
        if low < adapter_trace.trace([one], FIRST, 0, analyses).p_value <= high:
            yield one


def test_the_first_permutations_end_the_test_where_they_leave_nothing_open():
    small, large = measure_trace([leaning(5.0)], Criteria()), measure_trace([leaning(0.0)], Criteria())
    assert (small.permutations, small.p_value) == (FIRST, 1 / (FIRST + 1))
    assert (large.permutations, large.p_value > 0.01, large.spent) == (FIRST, True, 0.0)


def test_more_are_drawn_where_the_first_leave_it_open_and_p_pays_for_both_ways_to_a_small_one():
    one = next(by_first_permutations(VERIFIED / 2, 0.01))
    found = measure_trace([one], Criteria())
    assert (found.permutations, found.spent) == (MOST, VERIFIED / 2)
    assert found.p_value == pytest.approx(found.p_of("up") + VERIFIED / 2)


def test_several_analyses_draw_as_many_more_as_the_correction_costs():
    found = measure_trace([leaning(5.0)], Criteria(analyses=2))
    assert (found.permutations, found.p_value) == (2 * FIRST + 1, 1 / (FIRST + 1))


def test_who_asks_for_more_permutations_at_first_gets_them_all_at_once():
    found = measure_trace([next(by_first_permutations(VERIFIED / 2, 0.01))], Criteria(permutations=20_000))
    assert (found.permutations, found.spent) == (20_000, 0.0)


@pytest.mark.long
def test_drawing_more_raises_no_rate():
    """Of 3,000 independent pairs at most alpha are RELATED, and at most a thousandth has a p that verifies.

    More than 45 and 9 of them have a probability of less than one in three hundred each.
    """
    criteria = Criteria()
    p_values = np.array([measure_trace([leaning(0.0, seed)], criteria).p_value for seed in range(3000)])
    assert np.sum(p_values <= 0.01) <= 45
    assert np.sum(p_values <= VERIFIED) <= 9
