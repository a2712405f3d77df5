"""Inherited units: how much of what a candidate writes comes from units that have a counterpart in the base.

A significant score shows that two models are not independent; a shared embedding alone, with all layers trained anew,
can cause it. Units distinguish the two: a unit is inherited if some unit of the paired layer reads and writes in its
direction. Units are weighted by what they write; otherwise a million copies that write nothing would count.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.comparison import Comparison, in_order
from hf_lineage.signature.recipe import ROWS, Vector, random_stream
from hf_lineage.signature.unit_rows import HeadProducts, UnitRows, likeness
from hf_lineage.signature.values import PathSignature, UnitCodes

ALIKE = 0.5  # a unit is inherited if the product of its two cosines, of what it reads and writes, is above this
DRAWN = 2048  # units of all layers together that are compared with the base: the share is then known to 4 %
MOST, FEWEST = 256, 64  # the most and the fewest units of one layer that are drawn, weighted by what they write
FEWER = 4  # so many times fewer are drawn where nothing else points to a relation: the share is then known to 8 %
ERROR = 0.01  # the probability that the true share of the layers that were read lies outside its interval
AT_A_TIME = 2**18  # pairs of units that are compared at a time, to bound the memory
HALF, MORE = 0.5, 8  # MORE times as many are looked up if the first share is above HALF, but its interval is not


class DrawnUnits(NamedTuple):
    """The units of one layer of the candidate that were looked up in a base; for every base they are the same."""

    units: NDArray[np.int64]  # (q,): their numbers in the candidate's layer
    counts: Vector  # (q,): the share of what the layer writes that each unit stands for
    inherited: NDArray[np.bool_]  # (q,): whether it has a counterpart in the base

    @property
    def share(self) -> float:
        """The share of what the layer writes that is inherited."""
        # Rounding may make the shares add up to a little more than 1.
        return min(1.0, float(self.counts @ self.inherited))


NOTHING = DrawnUnits(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=bool))


@dataclass(frozen=True)
class InheritedShare:
    """The share of what a candidate's hidden units, or heads, write that has a counterpart in the base."""

    by_layer: Vector  # (M,): the share of each layer of the candidate; 0 where the layer cannot be measured
    weights: Vector  # (M,): the weight of each layer: the same for all layers that can be measured, whatever they write
    error: float  # half the width of the interval (Hoeffding 1963): the share is estimated from units drawn at random
    drawn_units: tuple[DrawnUnits, ...] = ()  # the units that were looked up, for each layer of the candidate
    partners: tuple[int, ...] = ()  # (M,): the row of the base's layer that each layer is compared with

    @property
    def share(self) -> float:
        """The share of all layers together: the plain mean, or a few loud layers would decide it."""
        total = float(self.weights.sum())
        # Rounded, so that half of the layers is half and not a little more.
        return min(1.0, round(float(self.by_layer @ self.weights) / total, 12)) if total > 0 else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the share with probability 99 %, for the layers that were read."""
        return max(0.0, self.share - self.error), min(1.0, self.share + self.error)

    @property
    def least(self) -> float:
        """The lower end of the interval, and no more than reports print of it: what prints as one half is not more."""
        return min(self.interval[0], round(self.interval[0], 2))

    @property
    def layers(self) -> tuple[int, ...]:
        """The rows of the layers of which more than half is inherited."""
        return tuple(int(row) for row in np.flatnonzero(self.by_layer > 0.5))


def inherited_units(
    base: PathSignature, candidate: PathSignature, comparison: Comparison, seed: int, fewer: bool = False
) -> InheritedShare | None:
    """Return what a candidate inherits from a base, layer by layer; None where a signature was stored without units."""
    # With `fewer`, fewer units of large layers are looked up, since nothing else points to a relation. A layer is held
    # against the one that it comes from, which may be that of several layers; in a sample, against that of its number.
    if not base.units or not candidate.units:
        return None
    partners = comparison.pairs[0] if base.by_number else in_order(comparison.similarity)
    rows = range(len(candidate.units))
    drawn, errors = [NOTHING for _ in rows], np.zeros(len(rows))
    usable = np.flatnonzero(candidate.usable).tolist()
    large = max((len(codes.weight) for codes in candidate.units), default=0) > MOST
    count = to_draw(len(usable)) // (FEWER if fewer and large else 1)

    def count_inherited(row: int) -> None:
        one, other = base.units[partners[row]], candidate.units[row]
        weight = other.weight.astype(np.float64)
        if not weight.sum() > 0:
            return
        if len(one.weight):
            chosen, counts, errors[row] = draw(weight, count, random_stream(f"units {seed} {row}"))
            drawn[row] = DrawnUnits(chosen, counts, have_counterparts(one, other, chosen))
        errors[row] += _effective(weight) if candidate.by_number else 0.0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(count_inherited, usable))
    weights = candidate.usable / max(int(candidate.usable.sum()), 1)
    shares = np.array([layer.share for layer in drawn])
    return InheritedShare(shares, weights, _half_width(weights, errors), tuple(drawn), tuple(partners.tolist()))


def _half_width(weights: Vector, errors: Vector) -> float:
    return float(np.sqrt(np.log(2 / ERROR) / 2 * (weights**2 * errors).sum()))


def _effective(weight: Vector) -> float:
    return float(weight @ weight / weight.sum() ** 2)  # one over the effective number of units of a sample


def to_draw(layers: int) -> int:
    """Return how many units are drawn of each of so many layers."""
    return min(MOST, max(FEWEST, DRAWN // max(layers, 1)))


def union_inherited(several: Sequence[InheritedShare]) -> InheritedShare | None:
    """Return what a candidate inherits from any base, a unit once; None if they looked up other units."""
    first, *others = several
    drawn = first.drawn_units
    for other in others:
        if len(other.drawn_units) != len(drawn) or not np.array_equal(first.weights, other.weights):
            return None
        pairs = [*zip(drawn, other.drawn_units, strict=True)]
        if not all(np.array_equal(a.units, b.units) for a, b in pairs):
            return None
        drawn = tuple(DrawnUnits(*a[:2], a.inherited | b.inherited) for a, b in pairs)
    return replace(first, by_layer=np.array([layer.share for layer in drawn]), drawn_units=drawn) if drawn else None


def draw(weight: Vector, count: int, stream: np.random.Philox) -> tuple[NDArray[np.int64], Vector, float]:
    """Return units (q,) drawn by weight, what each stands for (q,), and one over their number; 0 if they are all."""
    if len(weight) <= count:
        return np.arange(len(weight)), weight / weight.sum(), 0.0
    points = stream.random_raw(count) / 2**64 * weight.sum()
    chosen = np.minimum(np.searchsorted(weight.cumsum(), points, side="right"), len(weight) - 1)
    return chosen, np.full(count, 1 / count), 1 / count


def have_counterparts(base: UnitCodes, candidate: UnitCodes, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for the chosen units of a candidate, (q,), whether a unit of the base has the directions of its rows."""
    # Then the product of the cosines of both rows, or that of all three to the power of 2/3, is above ALIKE. Hardly any
    # pair of unrelated units has a first cosine of that size, so the others are only computed where the first has.
    inherited = np.zeros(len(chosen), dtype=np.bool_)
    codes = [(getattr(candidate, row)[chosen], getattr(base, row)) for row in ROWS]
    if any(signs.shape[1] != base_signs.shape[1] for signs, base_signs in codes):
        return inherited
    sides = []  # of each row its signs as words, (words, q) and (words, u), and the cosine by the number of unlike ones
    for signs, base_signs in codes:
        if bits := 8 * signs.shape[1]:
            sides.append((_words(signs), _words(base_signs), np.cos(np.pi * np.arange(bits + 1) / bits)))
    rows, least = max(1, AT_A_TIME // max(len(chosen), 1)), ALIKE ** (max(len(sides), 2) / 2)
    for start in range(0, len(base.weight) if sides else 0, rows):
        units, base_units = np.flatnonzero(~inherited), slice(start, start + rows)
        (words, base_words, cosine), *others = sides
        differing = _differing(words[:, units, None], base_words[:, None, base_units])
        far = np.flatnonzero(np.abs(cosine) <= least)
        # Numbers below the first one that is far become large ones, so that one comparison finds those on either side.
        near = differing - differing.dtype.type(far[0]) > far[-1] - far[0]
        places, partners = np.divmod(np.flatnonzero(near), near.shape[1])  # thirty times as fast as nonzero
        product = cosine[differing[places, partners]]
        for number, (other, base_other, cosines) in enumerate(others):
            alike = cosines[_differing(other[:, units[places]], base_other[:, base_units][:, partners])]
            # Reader and writer may both change their sign, and then are the same unit; a gate may not.
            product = product * (np.maximum(alike, 0.0) if number else alike)
        inherited[units[places[product > least]]] = True
    return inherited


def _differing(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.unsignedinteger[Any]]:
    """Return the number of signs that differ, given words of them along the first axis; other axes are broadcast."""
    total: NDArray[np.unsignedinteger[Any]] = np.bitwise_count(one[0] ^ other[0])
    total = total.astype(np.min_scalar_type(64 * len(one)), copy=False)
    for x, y in zip(one[1:], other[1:], strict=True):
        total += np.bitwise_count(x ^ y)
    return total


def _words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    filled = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    filled[:, : codes.shape[1]] = codes
    return np.ascontiguousarray(filled.view(np.uint64).T)


def inherited_share(
    bases: Sequence[UnitRows], others: Sequence[UnitRows], partners: Sequence[int], weights: Vector, seed: int
) -> InheritedShare:
    """Return the share by a few units, or by more if these do not decide whether it is more than one half."""
    count = to_draw(len(others))
    # Both intervals are above one half by chance with a probability of 1 % together.
    for purpose, number in ("units", count), ("more units", MORE * count):
        layers = []
        for place, (rows, partner) in enumerate(zip(others, partners, strict=True)):
            stream = random_stream(f"{purpose} in a frame {seed} {place}")
            layers.append(_layer(bases[partner], rows, number, stream))
        shares = np.array([remaining * drawn.share for drawn, remaining, _ in layers])
        error = _half_width(weights, np.array([error for _, _, error in layers]))
        share = InheritedShare(shares, weights, error, tuple(drawn for drawn, _, _ in layers))
        if not share.interval[0] <= HALF < share.share:
            break
    return share


def inherited_heads(layers: Iterable[tuple[HeadProducts | None, HeadProducts]]) -> InheritedShare:
    """Return the share of what the heads of each layer write that a head of the base computes as well."""
    shares = []
    for base, candidate in layers:
        shares.append(0.0)
        if base is not None and (total := candidate.weight.sum()) > 0:
            hits = (candidate.directions @ base.directions.T).max(axis=1) > ALIKE
            shares[-1] = float(candidate.weight @ hits / total)
    return InheritedShare(np.array(shares), np.full(len(shares), 1 / max(len(shares), 1)), error=0.0)


def _layer(
    base: UnitRows, candidate: UnitRows, count: int, stream: np.random.Philox
) -> tuple[DrawnUnits, float, float]:
    """Return the units of a layer that were looked up, what is left of their copies, and one over their number or 0."""
    # Of copies of the base's units all is left unless their opposites take more than half of it.
    live = np.flatnonzero(base.weight > 0)
    if not candidate.weight.sum() > 0 or not len(live):
        return NOTHING, 0.0, 0.0
    chosen, counts, error = draw(candidate.weight, count, stream)
    alike = likeness(candidate.select(chosen), base.select(live))
    inherited = alike.max(axis=1) > ALIKE
    partners = np.unique(live[alike.argmax(axis=1)[inherited]])
    if candidate.kept_share < 1:  # they are a sample themselves
        error += _effective(candidate.weight)
    # A copy beside its opposite writes nothing. Units that undo a copy without being its opposite need not be counted:
    # at a cosine of -c they write 1 / c of what it writes, so that copies are less than half of all that is written.
    # Many small changes that undo a whole layer, as training against a score makes them, leave its units inherited.
    alike = likeness(candidate, base.select(partners)).astype(np.float64)
    copied = float(candidate.weight @ np.where(alike > ALIKE, alike, 0.0).sum(axis=1))
    undone = float(candidate.weight @ np.where(alike < -ALIKE, alike, 0.0).sum(axis=1))
    remaining = min(1.0, max(0.0, 2 * (copied + undone) / copied)) if copied > 0 else 0.0
    return DrawnUnits(chosen, counts, inherited), remaining, error
