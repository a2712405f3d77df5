"""Framed verdict: what two models show unit by unit -> a verdict, with the kind of evidence that it rests on.

RELATED is verified only by the exact test together with a large enough share: a few copied units are in perfect order,
and sorted units are in a similar one. The share alone is calibrated evidence, which verifies nothing.
"""

from __future__ import annotations

from dataclasses import replace

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging.evaluation import CHANCE, as_related, named
from hf_lineage.evidence.units import CANCELLED, HALF, PROCRUSTES, RESIDUAL, TOKEN, Framed
from hf_lineage.evidence.verdict import Code, Verdict

CALIBRATION = "benchmarks/results/ours-frames.json"
"""The measurement of the shares of independent models, from which the two figures below come."""
PAIRS, LARGEST = 1035, 0.03
"""Pairs of independent models, and the largest share that one of them inherits from the other."""
CALIBRATED = 0.1
"""With a larger share two models are not called UNRELATED; above one half they are RELATED, calibrated."""
UNDONE = "the residual stream was rotated, reordered or changed in width"
"""Change that a comparison through tokens, or in fitted coordinates, undoes."""
THROUGH = {
    TOKEN: "through {0.tokens:,} tokens that both models know by their {0.by}",
    RESIDUAL: "in the coordinates of the residual stream",
    PROCRUSTES: "in the coordinates that fit the base best (orthogonal Procrustes)",
}
"""Frame -> how units are compared in it, as a phrase."""


def judge_framed(framed: Framed, criteria: Criteria) -> Verdict:
    """Return the verdict on what two models show unit by unit."""
    share, p_value = framed.inherited.share, framed.p_value
    if p_value is not None and p_value <= criteria.alpha:
        return replace(_exact(framed, criteria), framed=framed)
    if framed.frame.name != RESIDUAL and framed.least > max(HALF, criteria.min_share):
        reason = (
            f"{share:.0%} of what its units write is inherited, but in another order than in the base: {UNDONE}, and "
            f"units were moved; none of {PAIRS:,} pairs of independent models has more than {LARGEST:.0%}"
        )
        return replace(as_related(Code.CALIBRATED, reason, criteria), framed=framed)
    if share > CALIBRATED * framed.kept:
        few = _few_heads(framed, criteria)
        part = "" if framed.kept == 1 else f" ({framed.kept:.0%} of the units were compared)"
        return Verdict(
            Code.INCONCLUSIVE,
            f"{share:.0%} of what its units write is found in the base{part}, seen {through(framed)}: more than "
            f"independent models have in common, but {few or 'too little to call it related'}",
            framed=framed,
        )
    if framed.remains < CANCELLED:
        return Verdict(
            Code.INCONCLUSIVE,
            "most of what its hidden units write is cancelled by other units of the same layer; the units do not "
            "tell what the model computes",
            framed=framed,
        )
    return Verdict(Code.UNRELATED, framed=framed)


def _exact(framed: Framed, criteria: Criteria) -> Verdict:
    """Return the verdict where the order of the units is significant, by how many of them are inherited."""
    share, layers = framed.inherited.share, [framed.layers[1][row] for row in framed.inherited.layers]
    undone = f"{UNDONE}: " if framed.frame.name != RESIDUAL else ""
    shown = f"{undone}{share:.0%} of what its units write is inherited, in the order of the base"
    if framed.least > criteria.min_share:
        return Verdict(Code.INHERITED, shown)
    if layers or share > CHANCE:
        where = f", in {named(layers)}" if layers else ", in no layer more than half"
        few = _few_heads(framed, criteria)
        return as_related(Code.PART, f"{shown}{where}{few and f', but {few}'}", criteria)
    return Verdict(
        Code.INCONCLUSIVE,
        f"the order of its hidden units agrees with that of the base, but only {share:.1%} of what they write is "
        "inherited; a few copied units or a common initialisation can cause that",
    )


def _few_heads(framed: Framed, criteria: Criteria) -> str:
    """Say how little of its heads is inherited, where that is too little to verify it."""
    heads = framed.heads
    return f"only {heads.share:.0%} of what its heads write" if heads and heads.least <= criteria.min_share else ""


def through(framed: Framed) -> str:
    """Return how the units were compared, as a phrase."""
    return THROUGH[framed.frame.name].format(framed.frame)
