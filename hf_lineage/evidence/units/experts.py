"""Experts: which expert of a base each expert of a candidate is compared with.

**Why the test of the order stays exact.** Of an independent model the hidden units of every expert may be permuted. So
they may all be permuted alike, by one permutation for all experts of one size in a layer. The experts themselves
are not permuted, so that their order need not be random; and experts that are paired by what they have in common as
sets of units are paired alike under every such permutation. One permutation for all also holds for a model that was
made by copying one dense layer into every expert. Its experts resemble each other unit by unit: if each were
permuted by itself, two such models would seem to agree more often than they do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hf_lineage.evidence.units.order import MOST_UNITS, Matched, drawn_units, matched
from hf_lineage.signature.units import UnitRows, cosines

HEAVIEST = 8
"""An expert is paired by so many of its units, those that write most."""
MATCHED, FEWEST = 4096, 64
"""Units of all experts of a layer that are permuted, and at least so many of each."""


def by_expert(
    base: UnitRows, candidate: UnitRows, group: int, weight: float, seed: int, most: int = MOST_UNITS
) -> Iterator[Matched]:
    """Yield what the experts of a layer and those of the base that they are most alike say about the order of units.

    A layer without experts is one expert. `group` is the number that layers which copy each other have in common, and
    `most` how many units of an expert are permuted.
    """
    experts, total = candidate.by_expert, float(candidate.weight.sum())
    most = most if len(experts) == 1 else min(most, max(FEWEST, MATCHED // len(experts)))
    for place in experts:
        expert = candidate.select(place)
        share = float(expert.weight.sum()) / total if total > 0 else 0.0
        if weight * share > 0:
            units = drawn_units(len(expert.weight), f"permuted units {seed} {group}", most)
            yield matched(base.select(_nearest(base, expert)), expert, units, group, weight * share)


def _nearest(base: UnitRows, expert: UnitRows) -> slice:
    """Return the units of the base in its expert that is most like another expert, whatever their order."""
    own = base.by_expert
    if len(own) == 1:
        return own[0]
    heavy = expert.select(np.argsort(-expert.weight, kind="stable")[:HEAVIEST])
    best = np.maximum.reduceat(cosines(heavy, base), [part.start for part in own], axis=1)
    return own[int(np.argmax(heavy.weight @ best.astype(np.float64)))]
