"""Inherited units: how much of what a candidate writes comes from hidden units that have a counterpart in the base.

A significant score says that two models are not independent; it can come from a shared embedding alone, with all layers
trained anew. Units tell the two apart: a unit is inherited if some unit of the paired layer reads and writes in its
direction. By number or activity a million copies that write nothing would count, so units count by what they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.comparison import Comparison
from hf_lineage.recipe import Vector, random_stream
from hf_lineage.signature import PathSignature, UnitCodes

ALIKE = 0.5
"""The product of both cosines above which a unit counts as inherited."""
DRAWN = 256
"""Units of a layer that are looked up, drawn in proportion to what they write; all of them where there are no more."""
ERROR = 0.01
"""Probability with which the share of the layers that were read lies outside its interval."""
AT_A_TIME = 2**22
"""Pairs of units that are compared at a time."""


class Drawn(NamedTuple):
    """Units of one layer that were looked up, the same whatever base they are looked up in."""

    units: NDArray[np.int64]
    """(q,): which of the candidate's."""
    counts: Vector
    """(q,): what share of the layer each stands for."""
    inherited: NDArray[np.bool_]
    """(q,): whether it has a counterpart in the base."""

    @property
    def share(self) -> float:
        """Of what the layer writes."""
        return float(self.counts @ self.inherited)


NOTHING = Drawn(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=bool))


@dataclass(frozen=True)
class Inherited:
    """The share of what a candidate's hidden units, or heads, write that has a counterpart in the base."""

    by_layer: Vector
    """(M,): of each layer of the candidate; 0 where the layer cannot be judged."""
    weights: Vector
    """(M,): the layer's share of what all of them write."""
    error: float
    """Half the width of the interval (Hoeffding 1963): units are drawn."""
    drawn: tuple[Drawn, ...] = ()
    """Of each layer of the candidate."""

    @property
    def share(self) -> float:
        """Of all layers together, each by what it writes."""
        return float(self.by_layer @ self.weights)

    @property
    def interval(self) -> tuple[float, float]:
        """In which the share lies with 99 %, for the layers that were read."""
        return max(0.0, self.share - self.error), min(1.0, self.share + self.error)

    @property
    def layers(self) -> tuple[int, ...]:
        """Rows of the layers more than half of which is inherited."""
        return tuple(int(row) for row in np.flatnonzero(self.by_layer > 0.5))


def inherited_units(
    base: PathSignature, candidate: PathSignature, comparison: Comparison, seed: int
) -> Inherited | None:
    """Return what a candidate inherits from a base, layer by layer; None where a signature was stored without units.

    A layer is held against the one it is paired with, one without a partner against the most similar.
    """
    if not base.units or not candidate.units:
        return None
    partners = {int(row): int(partner) for partner, row in zip(*comparison.pairs, strict=True)}
    rows = range(len(candidate.units))
    drawn, errors = [NOTHING for _ in rows], np.zeros(len(rows))
    for row in np.flatnonzero(candidate.usable):
        partner = partners.get(int(row), int(comparison.similarity[:, row].argmax()))
        stream = random_stream(f"units {seed} {row}")
        drawn[row], errors[row] = _layer(base.units[partner], candidate.units[row], stream)
    writes = np.where(candidate.usable, candidate.writes, 0.0)
    weights = writes / writes.sum() if writes.sum() > 0 else writes
    error = float(np.sqrt(np.log(2 / ERROR) / 2 * (weights**2 * errors).sum()))
    return Inherited(np.array([each.share for each in drawn]), weights, error, tuple(drawn))


def together(several: Sequence[Inherited]) -> Inherited | None:
    """Return what a candidate inherits from any of several bases; None where unlike layers or units were looked up.

    A unit that several bases have counts once: the bases may be copies of each other.
    """
    first, *others = several
    drawn = first.drawn
    for other in others:
        if len(other.drawn) != len(drawn) or not np.array_equal(first.weights, other.weights):
            return None
        if not all(np.array_equal(a.units, b.units) for a, b in zip(drawn, other.drawn, strict=True)):
            return None
        drawn = tuple(Drawn(*a[:2], a.inherited | b.inherited) for a, b in zip(drawn, other.drawn, strict=True))
    return replace(first, by_layer=np.array([each.share for each in drawn]), drawn=drawn) if drawn else None


def _layer(base: UnitCodes, candidate: UnitCodes, stream: np.random.Philox) -> tuple[Drawn, float]:
    """What was looked up of one layer, and one over the number of units that were drawn; 0 where it was all of them."""
    weight = candidate.weight.astype(np.float64)
    if not weight.sum() > 0 or not len(base.weight):
        return NOTHING, 0.0
    if len(weight) <= DRAWN:
        counts, chosen, error = weight / weight.sum(), np.arange(len(weight)), 0.0
    else:
        points = stream.random_raw(DRAWN) / 2**64 * weight.sum()
        chosen = np.minimum(np.searchsorted(weight.cumsum(), points, side="right"), len(weight) - 1)
        counts, error = np.full(DRAWN, 1 / DRAWN), 1 / DRAWN
    return Drawn(chosen, counts, best_counterparts(base, candidate, chosen) > ALIKE), error


def best_counterparts(base: UnitCodes, candidate: UnitCodes, chosen: NDArray[np.int64]) -> Vector:
    """Return for some units of a candidate, (q,), the largest product of cosines with any unit of the base."""
    best = np.full(len(chosen), -1.0)
    rows = max(1, AT_A_TIME // max(len(chosen), 1))
    ours = [_words(side[chosen]) for side in (candidate.inner, candidate.outer)]
    theirs = [_words(side) for side in (base.inner, base.outer)]
    signs = [8 * side.shape[1] for side in (candidate.inner, candidate.outer)]
    if [8 * side.shape[1] for side in (base.inner, base.outer)] != signs:
        return best
    for start in range(0, len(base.weight), rows):
        sides = (
            _cosines(mine, other[start : start + rows], count)
            for mine, other, count in zip(ours, theirs, signs, strict=True)
            if count
        )
        product: Vector = np.prod(list(sides), axis=0)
        best = np.maximum(best, product.max(axis=1))
    return best


def _words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Packed signs (u, bytes) as (words, u), the last word filled with zeros."""
    filled = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    filled[:, : codes.shape[1]] = codes
    return np.ascontiguousarray(filled.view(np.uint64).T)


def _cosines(ours: NDArray[np.uint64], theirs: NDArray[np.uint64], signs: int) -> Vector:
    """Cosines (q, u) of directions (words, q) and (words, u): cos(π x) where they differ in a share x of signs."""
    differing = sum(
        np.bitwise_count(mine[:, None] ^ other[None, :]).astype(np.uint16)
        for mine, other in zip(ours, theirs, strict=True)
    )
    cosines: Vector = np.cos(np.pi * np.arange(signs + 1) / signs)[differing]
    return cosines
