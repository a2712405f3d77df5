"""Equal verdict: what numbers that are the base's, bit for bit, make of a verdict that other tests came to."""

from __future__ import annotations

from dataclasses import replace

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.judging.evaluation import as_related
from hf_lineage.evidence.verdict import Kind, Verdict


def judge_equal(measured: EqualNumbers, before: Verdict, criteria: Criteria) -> Verdict | None:
    """Return the verdict after the one before, None where equal numbers change nothing of it.

    Where more of them stand in their places than chance puts there, UNRELATED is never said. They verify nothing: a
    layer inherits at least their share, and perhaps no more.
    """
    if measured.p_value > criteria.alpha:
        return None
    low, high = (f"{end:.1%}" for end in (measured.at_least.min(), measured.at_least.max()))
    reason = (
        f"{float(measured.equal.mean()):.1%} of the numbers that were compared are the base's, bit for bit "
        f"(p = {measured.p_value:.3g}): by their energy a layer inherits at least {low}, and one at least {high}"
    )
    clear = measured.share >= criteria.minimum_effect
    if before.kind is Kind.IN_PART:
        return replace(before, reason=f"{before.reason}; {reason}" if clear else before.reason, equal=measured)
    if clear:
        return replace(as_related(Kind.IN_PART, reason, criteria), equal=measured)
    why = "a shared initialisation, distant ancestry or a few copied numbers can cause that"
    inconclusive = Verdict(Kind.INCONCLUSIVE, f"{reason}; {why}", equal=measured)
    return inconclusive if before.kind is Kind.UNRELATED else None
