"""Merge: how much each of several parents gave to a model, from inner products of their matrices.

A merge combines the matrices of its parents, X = Σ w_p P_p. Least squares give the weights, and shares are the weights
divided by their sum; a base from which differences are taken is a parent like any other. Numbers in which parents
differ by no more than the format of the model tells apart are left out, known from the parents and the format alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hf_lineage.checkpoint.rounding import DIGITS, Matrix, spacing
from hf_lineage.evidence.change import dependents, distance, is_low_rank, jackknife, residual, solve
from hf_lineage.signature.recipe import Vector

PARTS = 8  # parts into which the rows of a matrix are divided; the scatter between them gives the interval
FINE = 4.0  # least distance between parents, in the spacing of the format in which the model is stored
FEWEST = 256  # fewest numbers of a matrix that must be so far apart
RANKED = 128  # rows from which the rank of parents' differences is measured


@dataclass(frozen=True)
class Products:
    """One matrix of a model, beside those of the parents that it is like."""

    layer: int  # the number of the model's layer
    branch: str
    active: tuple[int, ...]  # the parents of which it may be a part; n of them
    grams: Vector  # (PARTS, n + 1, n + 1): Gram matrices as `change` takes them, by parts of the rows
    rounding: float | None  # the squared size of what storing the model added; None where its grid is not known
    digits: int  # the binary digits with which the model is stored; 0 where it is decoded
    low_rank: frozenset[bool | None] = frozenset()  # whether parents differ by such a change; None where that is hidden

    @property
    def gram(self) -> Vector:
        """(n + 1, n + 1), over all parts."""
        return np.asarray(self.grams.sum(axis=0))

    def only(self, parents: Sequence[int]) -> Products | None:
        """Return the matrix beside some of the parents, which are numbered anew; None if it is like none of them."""
        places = [self.active.index(one) for one in parents if one in self.active]
        if not places:
            return None
        order = (*places, len(self.active))
        change = np.zeros((len(order), self.grams.shape[-1]))  # what is taken of the old vectors for each new one
        for row, number in enumerate(order):
            change[row, number] = 1
            change[row, order[0]] -= row > 0
            change[row, 0] = row == 0
        active = tuple(number for number, one in enumerate(parents) if one in self.active)
        return replace(self, active=active, grams=change @ self.grams @ change.T)


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix with what is known of the format it is stored in."""

    numbers: Matrix  # (r, c)
    digits: int = 0  # the binary digits with which they are stored; 0 where they are decoded
    spacing: Matrix | None = None  # between neighbouring numbers of a floating-point format; None where it is decoded
    step: Matrix | None = None  # between neighbouring values of a quantization; None where no grid was found


def inner_products(
    layer: int, branch: str, parents: Sequence[tuple[int, StoredMatrix]], model: StoredMatrix
) -> Products | None:
    """Return one matrix beside those of some parents, by number; None where it is not finite, or all too alike."""
    first, *others = (one.numbers for _, one in parents)
    mask = np.ones(model.numbers.shape, bool)
    if model.digits and others:
        apart = np.max([np.abs(other - first) for other in others], axis=0)
        mask = apart >= FINE * spacing(first, model.digits)
        if mask.sum() < FEWEST:
            return None
    if not all(np.isfinite(one).all() for one in (first, *others, model.numbers)):
        return None
    grams = []
    for some in np.array_split(np.arange(len(first)), PARTS):  # by parts of the rows
        chosen = mask[some]
        origin = first[some][chosen].astype(np.float64)
        apart = [one[some][chosen].astype(np.float64) - origin for one in (*others, model.numbers)]
        rows = np.stack([origin, *apart])
        grams.append(rows @ rows.T)
    if not sum(gram[0, 0] for gram in grams):
        return None
    steps = [one for one in (model.spacing, model.step) if one is not None]
    step = np.max(steps, axis=0) if steps else None
    rounding = None if step is None else float((np.where(mask, step, 0).astype(np.float64) ** 2).sum()) / 12
    digits = model.digits or DIGITS["F32"]
    low_rank = frozenset(is_low_rank(first[:RANKED], other[:RANKED], digits) for other in others)
    active = tuple(number for number, _ in parents)
    return Products(layer, branch, active, np.stack(grams), rounding, model.digits, low_rank)


LEAST = 0.02  # the least share that counts as one, however narrow its interval
WIDEST = 0.25  # half the width of an interval above which the parent cannot be told from the others
OTHER_ORDER = "hidden units of the model do not stand in the order of those of this parent, as a merge leaves them"
ALIKE = "no matrix tells the parents apart: they hardly differ, or their hidden units stand in another order"
DEPENDENT = "it equals another parent, or a combination of others"
# The most that may be left beside the distance between parents where no base is known: any other descendant of their
# base has what they have in common, which would pass for a share of each.
MOST_LEFT = 0.25


@dataclass(frozen=True)
class Share:
    """The share of one parent in a model."""

    value: float
    low: float
    high: float  # the share lies between `low` and `high` with probability 99 %
    layers: Mapping[int, tuple[float, float]]  # number of a layer -> its share, and half the width of the interval
    detected: bool  # whether the layers that were read hold anything of this parent that the others do not explain

    @property
    def clear(self) -> bool:
        """Whether the figure tells this parent from the others."""
        return self.high - self.low <= 2 * WIDEST


@dataclass(frozen=True)
class Shares:
    """The shares of all parents."""

    parents: tuple[Share | str, ...]  # in their order; the reason where one is not told from others, or like no layer
    remainder: float  # the size of what no combination of the parents explains, beside the distance between these


@dataclass(frozen=True)
class Parent:
    """A declared parent of a merge: what it gave along every path, beside what the merge declares of it."""

    shares: Mapping[str, Share] = field(default_factory=dict)  # by path
    remainders: Mapping[str, float] = field(default_factory=dict)  # by path, as in `Shares`
    declared: Mapping[str, float] = field(default_factory=dict)  # by path, the weights that the merge declares
    method: str = ""  # the method by which the merge says it was made; empty if it does not say
    is_base: bool = False  # whether it is declared as the base of differences, which need not give anything itself
    reason: str = ""  # why no share was measured


def shares_of(matrices: Sequence[Products], count: int, depth: int) -> Shares:
    """Return what each of so many parents gave to a model of so many layers."""
    if not matrices:
        return Shares((ALIKE,) * count, 0.0)
    levelled = _level(matrices)
    (value, noise), dependent, between = _estimate_shares(levelled, count), _dependent(levelled), np.zeros(count)
    numbers = sorted({one.layer for one in levelled})
    if len(numbers) > 2:
        others = [_fit_shares([one for one in levelled if one.layer != number], count) for number in numbers]
        between = jackknife(others) * math.sqrt(max(0.0, 1 - len(numbers) / depth))
    errors = np.hypot(noise, between)
    by_layer = {number: _estimate_shares([one for one in levelled if one.layer == number], count) for number in numbers}
    parents: list[Share | str] = []
    for parent in range(count):
        if parent in dependent or not any(parent in one.active for one in matrices):
            parents.append(DEPENDENT if parent in dependent else OTHER_ORDER)
            continue
        share, error = float(value[parent]), float(errors[parent])
        layers = {number: (float(one[parent]), float(each[parent])) for number, (one, each) in by_layer.items()}
        detected = bool(max(LEAST, noise[parent]) < abs(share) and noise[parent] <= WIDEST)
        parents.append(Share(share, share - error, share + error, layers, detected))
    remains = apart = 0.0
    for gram in (one.gram for one in levelled if len(one.active) > 1):
        remains += residual(gram, solve(gram))
        apart += distance(gram)
    return Shares(tuple(parents), math.sqrt(remains / apart) if apart > 0 else 0.0)


def independent(matrices: Sequence[Products], order: Sequence[int]) -> list[int]:
    """Return the parents that equal no other one and no combination of others, of which the first count."""
    chosen = list[int]()
    for parent in order:
        some = [one for whole in matrices if (one := whole.only((*chosen, parent)))]
        if len(chosen) not in _dependent(_level(some)):
            chosen.append(parent)
    return sorted(chosen)


def _level(matrices: Sequence[Products]) -> list[Products]:
    """Return matrices that count alike: each over the distance between its parents, unless these hardly differ."""
    sizes = [float(one.gram[0, 0]) for one in matrices]
    distances = np.array([distance(one.gram) / size for one, size in zip(matrices, sizes, strict=True)])
    usual = float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    scales = np.maximum(distances, 0.01 * usual) * sizes
    return [replace(one, grams=one.grams / scale) for one, scale in zip(matrices, scales, strict=True)]


def _fit_shares(matrices: Sequence[Products], count: int) -> Vector:
    """Return the shares of all parents over matrices that count alike."""
    total = np.zeros(count)
    for active, (number, gram) in _by_parents(matrices).items():
        weights = solve(gram)
        total[list(active)] += number * weights / weights.sum()
    return total / max(len(matrices), 1)


def _dependent(matrices: Sequence[Products]) -> set[int]:
    return {active[index] for active, (_, gram) in _by_parents(matrices).items() for index in dependents(gram)}


def _by_parents(matrices: Sequence[Products]) -> dict[tuple[int, ...], tuple[int, Vector]]:
    """Return, for each set of parents that matrices are like, their number and the sum of their inner products."""
    sums: dict[tuple[int, ...], tuple[int, Vector]] = {}
    for one in matrices:
        number, gram = sums.get(one.active, (0, 0.0))
        sums[one.active] = number + 1, gram + one.gram
    return sums


def _estimate_shares(matrices: Sequence[Products], count: int) -> tuple[Vector, Vector]:
    """Return the shares of all parents, and half the widths of intervals from the scatter between parts of the rows."""
    without = ([replace(one, grams=np.delete(one.grams, part, axis=0)) for one in matrices] for part in range(PARTS))
    return _fit_shares(matrices, count), jackknife([_fit_shares(some, count) for some in without])
