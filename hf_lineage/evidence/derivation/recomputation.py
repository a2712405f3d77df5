"""Recomputation: whether the numbers of a model are what its parents give, to the last digit, or those of a parent are
what the model and the other parents give.

Nothing that was trained does so by chance, and of two models that lie on one line with a third it tells which came
later: the rounding of a blend goes a longer way when the line is followed back beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from hf_lineage.evidence.derivation.combination import left, rebased, solved
from hf_lineage.evidence.derivation.matrices import Products
from hf_lineage.evidence.derivation.rounding import Matrix, rounded
from hf_lineage.signature import Vector

EXACT = 0.95
"""The part of numbers that have to be the same: of small matrices weights are known less well."""
CLEARLY = 0.9
"""The most that the weight of a parent may be to tell who came later: next to 1 the ways forth and back are as long."""
ROUNDED = 3.0
"""What may be left in float32, in multiples of the squared rounding: products and sums are rounded as well."""
DECIMALS = 3
"""Of weights as people choose them."""
SHORT = (8, 11)
"""Binary digits of the formats in which numbers can be computed anew."""
WRONG, STEPS, SEARCHED = (0.03, 0.001), 61, 512
"""By how much a weight may be wrong, for the parents choose which numbers are compared, first and once it is nearly
known; how many weights are tried, and on how many numbers."""
LEAST = 0.03
"""The least weight that counts as one: a model that equals one parent but for a few numbers is no blend."""


class Later(Enum):
    """Which of a model and one of its parents was computed from the other, by one matrix."""

    MODEL = "model"
    PARENT = "parent"
    EITHER = "either"
    """They and the other parents lie on one line to the last digit, and that is all that can be told."""
    NEITHER = "neither"


def later(one: Products, weights: Vector, parent: int) -> Later:
    """Return what one matrix tells, given the weights of its parents (n,)."""
    at, total = one.active.index(parent), weights.sum()
    own = weights[at] / total if total else 0.0
    if not LEAST < own < 1 - LEAST:
        return Later.NEITHER
    if one.digits not in SHORT:
        exact = one.rounding and left(one.gram, weights) <= ROUNDED * one.rounding
        return Later.EITHER if exact and one.digits else Later.NEITHER
    if _back(one, at) >= EXACT:
        return Later.PARENT if own <= CLEARLY else Later.EITHER
    forth = (_same(numbers, one.model, one.digits) for numbers in _blends(one, weights))
    if max(_on_line(one.parents, weights, at, one.model, one.digits), *forth) < EXACT:
        return Later.NEITHER
    return Later.MODEL if own <= CLEARLY else Later.EITHER


def _back(one: Products, at: int) -> float:
    """The part of a parent's numbers that the model and the other parents give."""
    count = len(one.active)
    others = [number for number in range(count) if number != at]
    weights = solved(rebased(one.gram, (*others, count, at)))
    return _on_line(np.vstack([one.parents[others], one.model]), weights, count - 1, one.parents[at], one.digits)


def _on_line(rows: Matrix, weights: Vector, at: int, target: Matrix, digits: int) -> float:
    """The part of numbers (s,) that a point of a line gives: from a combination of other rows (n, s) to one of them.

    Several points are tried near the one that the weights give.
    """
    rest = np.where(np.arange(len(weights)) == at, 0.0, weights)
    if not rest.sum() or not weights.sum():
        return 0.0
    origin = rest / rest.sum() @ rows.astype(np.float64)
    way, own = rows[at] - origin, weights[at] / weights.sum()
    some = slice(None, None, max(1, len(way) // SEARCHED))

    def agreeing(factor: float, chosen: slice = some) -> float:
        return _same(origin[chosen] + factor * own * way[chosen], target[chosen], digits)

    best = 1.0
    for reach in WRONG:
        best = max(best + reach * np.linspace(-1, 1, STEPS), key=agreeing)
    if not LEAST < best * own < 1 / LEAST or abs(1 - best * own) < LEAST:
        return 0.0
    # A weight as people choose it lets numbers fall half-way between two, which the format rounds to even.
    return max(agreeing(some, slice(None)) for some in (best, round(best * own, DECIMALS) / own))


def _blends(one: Products, weights: Vector) -> Iterator[Vector]:
    """The numbers of the model as its parents may give them: in float32, or with each step in the short format."""
    parents, digits, chosen = one.parents.astype(np.float64), one.digits, np.round(weights, DECIMALS)
    yield weights @ parents
    yield chosen @ parents
    short = _short(chosen, digits)[:, None]
    yield _short(short * parents, digits).sum(axis=0)
    for origin in parents:  # differences from one parent, as task arithmetic adds them
        yield origin + _short(_short(short * _short(parents - origin, digits), digits).sum(axis=0), digits)


def _short(numbers: Vector, digits: int) -> Vector:
    return rounded(numbers.astype(np.float32), digits).astype(np.float64)


def _same(computed: Vector, stored: Matrix, digits: int) -> float:
    """The part of numbers that are equal once they are rounded."""
    return float(np.mean(rounded(computed.astype(np.float32), digits) == stored))
