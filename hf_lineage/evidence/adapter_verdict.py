"""The verdict on an adapter: from the trace that its base would have left in it."""

from __future__ import annotations

from hf_lineage.evidence.adapter_trace import Trace
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.interim import DOUBTFUL
from hf_lineage.evidence.verdict import Inconclusive, Kind, Related, Unrelated, Verdict

POWER = 0.99
"""UNRELATED needs a test that would have found the trace with this probability."""


def judge_trace(trace: Trace, criteria: Criteria, order_matters: str = "") -> Verdict:
    """Return the verdict on an adapter and a base; `order_matters` is its initialisation where no null holds for it."""
    if order_matters:
        return Inconclusive(
            f"the adapter started from {order_matters}, which treats the rows of the base differently by their order, "
            "so that the permutation null does not hold",
            trace=trace,
        )
    if trace.p_value <= criteria.alpha:
        return Related(
            "the adapter carries the trace of this base: it was trained on it or on a near relative of it",
            kind=Kind.ADAPTER,
            trace=trace,
        )
    if not trace.calibrated:
        return Inconclusive(
            "no trace of this base shows, and how much of one adapters like this show was not measured", trace=trace
        )
    power = trace.power(criteria.alpha)
    if power < POWER:
        return Inconclusive(
            "no trace of this base shows, but an adapter of this rank and size in these matrices would show one only "
            f"with a predicted probability of {power:.2f}",
            trace=trace,
        )
    return Unrelated(
        "the adapter carries no trace of this base; one trained on it would show it with a predicted probability "
        f"{_above(power)}",
        trace=trace,
    )


def clear(outcome: Verdict) -> bool:
    """Return whether a verdict on some layers stands, so that the others need not be read."""
    trace = outcome.trace
    if isinstance(outcome, Related) or trace is None:
        return True
    return isinstance(outcome, Unrelated) and trace.p_value > DOUBTFUL * trace.analyses


def _above(power: float) -> str:
    return f"of {power:.2f}" if power < 0.995 else "above 0.99"
