"""The verdict on an adapter: from the trace that its base would have left in it.

**Why p is valid.** The first permutations end the test if p is above alpha, or at most half of the level at which
a claim is verified. Else more are drawn, p is that of all of them, and the half that an early end may
have taken is added. So independent pairs are verified with that level at most, and RELATED with alpha at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hf_lineage.evidence.adapters import Block, Trace, trace
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.evaluation import as_related
from hf_lineage.evidence.nulls import DOUBTFUL
from hf_lineage.evidence.verdict import Code, Verdict

POWER = 0.99
"""UNRELATED needs a test that detects a trace with this probability."""
VERIFIED = 0.001
"""The largest p that verifies a claim: a share alpha of adapters is RELATED by chance, too much for a card."""
FIRST, MOST = 1_999, 9_999
"""The fewest permutations that are drawn first, and how many if these do not decide, for each interim analysis."""


def measure_trace(blocks: Sequence[Block], criteria: Criteria) -> Trace:
    """Return the test over some blocks, with as many permutations as its p-value needs."""
    first, most = (criteria.tests * (number + 1) - 1 for number in (FIRST, MOST))
    first = max(first, criteria.permutations_at_first())
    measured = trace(blocks, first, criteria.seed, criteria.analyses)
    spent = level(criteria.alpha) / 2
    if first >= most or not spent < measured.p_value <= criteria.alpha:
        return measured
    return replace(trace(blocks, most, criteria.seed, criteria.analyses), spent=spent)


def level(alpha: float) -> float:
    """Return the largest p that verifies a claim."""
    return min(alpha, VERIFIED)


def least_effect(measured: Trace, alpha: float) -> float:
    """Return the least effect that verifies a claim: the least that is predicted, and one that a test would not miss.

    With few directions, or a large size, the formula predicts almost nothing; the author of an adapter chooses both.
    """
    return max(measured.predicted, measured.effect_of(level(alpha), POWER))


def judge_trace(trace: Trace, criteria: Criteria, order_matters: str = "") -> Verdict:
    """Return the verdict on an adapter and a base; `order_matters` names an initialisation for which no null holds."""
    if order_matters:
        return Verdict(
            Code.INCONCLUSIVE,
            f"the adapter started from {order_matters}, which depends on the order of the rows of the base, so the "
            "permutation null does not hold",
            trace=trace,
        )
    if trace.p_value <= criteria.alpha:
        return _related(trace, criteria)
    if not trace.calibrated:
        return Verdict(
            Code.INCONCLUSIVE,
            "the adapter shows no trace of this base, but it is not known how strong a trace such adapters show",
            trace=trace,
        )
    power = trace.power(criteria.alpha)
    if power < POWER:
        return Verdict(
            Code.INCONCLUSIVE,
            "the adapter shows no trace of this base; with this rank and size in these matrices it would show one "
            f"only with a predicted probability of {power:.2f}",
            trace=trace,
        )
    above = f"of {power:.2f}" if power < 0.995 else "above 0.99"
    return Verdict(
        Code.UNRELATED,
        "the adapter carries no trace of this base; one trained on it would show it with a predicted probability "
        f"{above}",
        trace=trace,
    )


def _related(trace: Trace, criteria: Criteria) -> Verdict:
    highest, least = level(criteria.alpha), least_effect(trace, criteria.alpha)
    doubts = [
        *[f"p is {trace.p_value:.2g}, and at most {highest:g} verifies"] * (trace.p_value > highest),
        *[f"the effect is {trace.effect:.1f} standard deviations, and at least {least:.1f} verify"]
        * (not trace.effect >= least),
    ]
    if not doubts:
        return Verdict(
            Code.ADAPTER,
            "the adapter carries the trace of this base: it was trained on it or a near relative, or extracted from a "
            "difference to it",
            trace=trace,
        )
    weak = f"the adapter shows a trace of this base, but a weak one: {'; '.join(doubts)}"
    return replace(as_related(Code.WEAK, weak, criteria), trace=trace)


def clear(outcome: Verdict) -> bool:
    """Return whether a verdict on some layers stands, so that the others need not be read."""
    trace = outcome.trace
    if outcome.verified or trace is None:
        return True
    return outcome.code is Code.UNRELATED and trace.p_value > DOUBTFUL * trace.analyses
