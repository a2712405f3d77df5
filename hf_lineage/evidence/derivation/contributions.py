"""Shares: how much each of several parents gave to a model that was combined from them, layer by layer, with intervals.

A merge combines the matrices of its parents, X = Σ w_p P_p. Least squares on the matrices themselves give the weights,
and shares are the weights divided by their sum. A base from which differences are taken is a parent like any other:
what the others do not give stays with it, and what they give in excess is taken off it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hf_lineage.evidence.derivation.combination import dependents, distance, jackknife, left, solved
from hf_lineage.evidence.derivation.matrices import PARTS, Products
from hf_lineage.signature import Vector

LEAST = 0.02
"""The least share that counts as one, however narrow its interval."""
WIDEST = 0.25
"""Half the width of an interval above which the parent cannot be told from the others."""
HARDLY = 0.01
"""Matrices in which the squared distance between parents is less than this share of the usual one count for less."""
OTHER_ORDER = "hidden units of the model do not stand in the order of those of this parent, as a merge leaves them"
ALIKE = "no matrix tells the parents apart: they hardly differ, or their hidden units stand in another order"
DEPENDENT = "it equals another parent, or a combination of others"
MOST_LEFT = 0.25
"""The most that may be left beside the distance between parents where no base is known: otherwise what the parents have
in common, which any other descendant of their base has too, would pass for a share of each."""


@dataclass(frozen=True)
class Share:
    """The share of one parent in a model."""

    value: float
    low: float
    high: float
    """The share lies between `low` and `high` with probability 99 %."""
    layers: Mapping[int, tuple[float, float]]
    """Number of a layer of the model -> this parent's share of it, and half the width of its interval."""
    detected: bool
    """Whether the layers that were read hold anything of this parent that the others do not explain."""

    @property
    def clear(self) -> bool:
        """Whether the figure tells this parent from the others."""
        return self.high - self.low <= 2 * WIDEST


@dataclass(frozen=True)
class Shares:
    """The shares of all parents."""

    parents: tuple[Share | str, ...]
    """One for each parent, in their order; of one that cannot be told from others, or is like no layer, the reason."""
    remainder: float
    """The size of what no combination of the parents explains, beside the distance between these."""


@dataclass(frozen=True)
class Parent:
    """A declared parent of a merge: what it gave along every path, beside what the merge declares of it."""

    shares: Mapping[str, Share] = field(default_factory=dict)
    """Path -> the share of this parent; empty where `reason` says why none was measured."""
    remainders: Mapping[str, float] = field(default_factory=dict)
    """Path -> size of what no combination of the parents explains, beside the distance between them."""
    declared: Mapping[str, float] = field(default_factory=dict)
    """Path -> the weight that the merge declares; empty where it declares none."""
    method: str = ""
    """The method by which the merge says it was made; empty if it does not say."""
    is_base: bool = False
    """Whether the merge says that differences are taken from this parent, which then need not give anything itself."""
    reason: str = ""


def shares_of(matrices: Sequence[Products], count: int, depth: int) -> Shares:
    """Return what each of so many parents gave to a model of so many layers."""
    if not matrices:
        return Shares((ALIKE,) * count, 0.0)
    levelled = _levelled(matrices)
    value, dependent = _fitted(levelled, count), _dependent(levelled)
    parts = [_fitted([one.without(part) for one in levelled], count) for part in range(PARTS)]
    noise, between = jackknife(parts), np.zeros(count)
    numbers = sorted({one.layer for one in levelled})
    if len(numbers) > 2:
        others = [_fitted([one for one in levelled if one.layer != number], count) for number in numbers]
        between = jackknife(others) * math.sqrt(max(0.0, 1 - len(numbers) / depth))
    errors = np.hypot(noise, between)
    by_layer = {number: _of_layer([one for one in levelled if one.layer == number], count) for number in numbers}

    def estimate(parent: int) -> Share | str:
        if not any(parent in one.active for one in matrices):
            return OTHER_ORDER
        if parent in dependent:
            return DEPENDENT
        share, error = float(value[parent]), float(errors[parent])
        return Share(
            value=share,
            low=share - error,
            high=share + error,
            layers={number: (float(one[parent]), float(each[parent])) for number, (one, each) in by_layer.items()},
            detected=bool(max(LEAST, noise[parent]) < abs(share) and noise[parent] <= WIDEST),
        )

    return Shares(tuple(map(estimate, range(count))), _remainder(levelled))


def independent(matrices: Sequence[Products], order: Sequence[int]) -> list[int]:
    """Return the parents that equal no other one and no combination of others, of which the first count."""
    kept = list[int]()
    for parent in order:
        some = [one for whole in matrices if (one := whole.only((*kept, parent)))]
        if len(kept) not in _dependent(_levelled(some)):
            kept.append(parent)
    return sorted(kept)


def _levelled(matrices: Sequence[Products]) -> list[Products]:
    """Return matrices that count alike: each over the distance between its parents, unless these hardly differ."""
    sizes = [float(one.gram[0, 0]) for one in matrices]
    distances = np.array([distance(one.gram) / size for one, size in zip(matrices, sizes, strict=True)])
    usual = float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    scales = np.maximum(distances, HARDLY * usual) * sizes
    return [replace(one, grams=one.grams / scale) for one, scale in zip(matrices, scales, strict=True)]


def _fitted(matrices: Sequence[Products], count: int) -> Vector:
    """Return the shares of all parents over matrices that count alike."""
    total = np.zeros(count)
    for active, (number, gram) in _by_parents(matrices).items():
        weights = solved(gram)
        total[list(active)] += number * weights / weights.sum()
    return total / max(len(matrices), 1)


def _dependent(matrices: Sequence[Products]) -> set[int]:
    """Return the parents that depend on others."""
    return {active[index] for active, (_, gram) in _by_parents(matrices).items() for index in dependents(gram)}


def _by_parents(matrices: Sequence[Products]) -> dict[tuple[int, ...], tuple[int, Vector]]:
    """Return, for each set of parents that matrices are like, their number and the sum of their inner products."""
    sums: dict[tuple[int, ...], tuple[int, Vector]] = {}
    for one in matrices:
        number, gram = sums.get(one.active, (0, 0.0))
        sums[one.active] = number + 1, gram + one.gram
    return sums


def _remainder(matrices: Sequence[Products]) -> float:
    """Return the size of what no combination of the parents of each layer explains, beside their mean distance."""
    remains, apart = 0.0, 0.0
    for gram in (one.gram for one in matrices if len(one.active) > 1):
        remains += left(gram, solved(gram))
        apart += distance(gram)
    return math.sqrt(remains / apart) if apart > 0 else 0.0


def _of_layer(matrices: Sequence[Products], count: int) -> tuple[Vector, Vector]:
    """Return the shares of all parents in one layer, and half the widths of their intervals."""
    parts = [_fitted([one.without(part) for one in matrices], count) for part in range(PARTS)]
    return _fitted(matrices, count), jackknife(parts)
