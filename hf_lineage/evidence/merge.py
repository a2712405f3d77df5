"""Merge: how much each of several parents gave to a model, from inner products, and whether it was put together so.

A merge combines the matrices of its parents, X = Σ w_p P_p. Least squares give the weights, and shares are the weights
divided by their sum; a base from which differences are taken is a parent like any other. Numbers in which parents
differ by no more than the format tells apart are left out. Training moves almost at right angles to earlier changes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from hf_lineage.checkpoint.rounding import DIGITS, Matrix, spacing
from hf_lineage.evidence.change import dependents, distance, is_low_rank, jackknife, residual, solve, square_distance
from hf_lineage.signature.recipe import Vector

PARTS = 8  # parts into which the rows of a matrix are divided; the scatter between them gives the interval
FINE = 4.0  # least distance between parents, in the spacing of the format in which the model is stored
FEWEST = 256  # fewest numbers of a matrix that must be so far apart
RANKED = 128  # rows from which the rank of parents' differences is measured
LEAST = 0.02  # the least share that counts as one, however narrow its interval
WIDEST = 0.25  # half the width of an interval above which the parent cannot be told from the others
OTHER_ORDER = "hidden units of the model do not stand in the order of those of this parent, as a merge leaves them"
ALIKE = "no matrix tells the parents apart: they hardly differ, or their hidden units stand in another order"
DEPENDENT = "it equals another parent, or a combination of others"
# The most that may be left beside the distance between parents where no base is known: any other descendant of their
# base has what they have in common, which would pass for a share of each.
MOST_LEFT = 0.25
# A share alone shows no parent: a fine-tune has one of its siblings. A blend of A and B is on the line between them;
# A and a descendant of the model are seen at a right angle, A and a sibling at an acute one.
ASIDE = 0.1  # largest squared distance from the line, over the product of its parts: 1 at a right angle, siblings more
ROUNDED = 3.0  # largest squared remainder of a blend that was not trained on, over the squared rounding
# Least and largest squared remainder of a blend, over the squared rounding. A blend is rounded itself: a line followed
# back from a parent leaves less, checkpoints of a training that went nearly straight leave more.
BACK, STRAIGHT = 0.8, 2.0


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

    def only(self, parents: Sequence[int]) -> "Products | None":
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


class BlendPlace(Enum):
    """The place of a model beside one parent, as the matrices show it; the values are identifiers in reports."""

    BLEND = "blend"  # the model lies on the line between the parents, but for rounding, or they went further along it
    FROM_MODEL = "from_model"  # closer to it than the rounding of a blend allows: another was computed from the model
    SHARED = "shared"  # on it, and parents differ by a change of low rank, which all may share at several strengths
    PIECES = "pieces"  # some matrices are those of the parent: taken, or the parent came from it and changed the others
    NEAR = "near"  # the model lies near the line, as a blend that was trained on, and as a checkpoint of one training
    ASIDE = "aside"  # there is a share that siblings and descendants have as well
    HIDDEN = "hidden"  # there is a share, and the rounding of the model hides where it lies
    NONE = "none"  # there is no share, or all of it


@dataclass(frozen=True)
class Blend:
    """A model as the combination of its parents that is nearest to it."""

    shares: Shares  # the shares over all matrices together
    by_branch: Mapping[str, Shares]
    explained: float  # the part of the squared distance from the nearest parent that it explains, rounding left out
    remainder: float | None  # the size of what is left, in multiples of what rounding leaves; None where not known
    places: tuple[BlendPlace, ...]  # the place of the model beside each parent, in the order of the parents

    @property
    def pure(self) -> bool | None:
        """Whether nothing is left but rounding; None where that cannot be told."""
        return None if self.remainder is None else self.remainder**2 <= ROUNDED


def blend_of(matrices: Sequence[Products], count: int, depth: int, first: Sequence[int] = ()) -> Blend:
    """Return a model as a combination of so many parents; of dependent ones those that are `first` count."""
    names = sorted({one.branch for one in matrices})
    branches = {name: shares_of([one for one in matrices if one.branch == name], count, depth) for name in names}
    chosen = independent(matrices, [*dict.fromkeys((*first, *range(count)))]) if matrices else range(count)
    if len(chosen) < count:
        some = blend_of([one for whole in matrices if (one := whole.only(chosen))], len(chosen), depth)
        parents, made = dict(zip(chosen, some.shares.parents, strict=True)), dict(zip(chosen, some.places, strict=True))
        shares = replace(some.shares, parents=tuple(parents.get(one, DEPENDENT) for one in range(count)))
        every = tuple(made.get(one, BlendPlace.NONE) for one in range(count))
        return replace(some, shares=shares, by_branch=branches, places=every)
    shares = next(iter(branches.values())) if len(branches) == 1 else shares_of(matrices, count, depth)
    weighed = [(one, solve(one.gram)) for one in matrices]
    remains = sum(residual(one.gram, weights) for one, weights in weighed)
    known = all(one.rounding is not None for one in matrices)
    rounding = sum(one.rounding or 0.0 for one in matrices)
    # Squared distances of the model from the parents that all matrices are like.
    common = [parent for parent in range(count) if all(parent in one.active for one in matrices)]
    distances = ([(one.gram, one.active.index(parent), len(one.active)) for one in matrices] for parent in common)
    nearest = min((sum(square_distance(*place) for place in some) for some in distances), default=math.inf)
    remainder = math.sqrt(remains / rounding) if known and rounding > 0 else None
    explained = 1.0 if nearest <= rounding else 1 - min(1.0, max(0.0, remains - rounding) / nearest)
    pure = remains <= ROUNDED * rounding * known
    places = tuple(_place_of_blend(weighed, parent, one, pure, known) for parent, one in enumerate(shares.parents))
    return Blend(shares, branches, explained, remainder, places)


def _place_of_blend(
    weighed: Sequence[tuple[Products, Vector]], parent: int, share: Share | str, pure: bool, known: bool
) -> BlendPlace:
    """Return the place beside one parent; rounding may be all that is left if `pure`, and its size is `known`."""
    if isinstance(share, str) or not share.clear or share.low <= LEAST or share.high >= 1 - LEAST:
        return BlendPlace.NONE
    pairs = [(one, some) for one, some in weighed if parent in one.active and len(one.active) > 1]
    if not pairs:
        return BlendPlace.PIECES  # no matrix is like two parents
    ranks = frozenset[bool | None]().union(*(one.low_rank for one, _ in pairs))
    if pure and True in ranks and False not in ranks:
        return BlendPlace.SHARED
    counts, aside, inner, even = Counter[BlendPlace](), 0.0, 0.0, 0.0
    for one, weights in pairs:
        at, remains = one.active.index(parent), residual(one.gram, weights)
        own, rest, others = weights[at] / weights.sum(), np.delete(weights, at), np.zeros(len(one.gram))
        if rest.sum():
            others[[place for place in range(len(weights)) if place != at]] = rest / rest.sum()
        others[at] -= 1
        others[0] = 0  # all are differences from the first parent
        length = float(others @ one.gram @ others)  # squared, of the line to the combination of the other parents
        aside += remains
        inner += float(own * (1 - own)) * length
        even += share.value * (1 - share.value) * length  # if every matrix had the same share
        if one.digits and one.rounding and LEAST < own < 1 - LEAST and remains <= STRAIGHT * one.rounding:
            counts[BlendPlace.FROM_MODEL if remains < BACK * one.rounding else BlendPlace.BLEND] += 1
    rounding = sum(one.rounding or 0.0 for one, _ in pairs) if known else 0.0
    most = max((BlendPlace.FROM_MODEL, BlendPlace.BLEND), key=lambda place: counts[place])
    if counts[most] >= max(2, 0.1 * len(pairs)):  # further training may have left some matrices as they were
        return most
    if inner < 0.25 * even:  # it is 0 for whole matrices
        return BlendPlace.PIECES if pure else BlendPlace.ASIDE
    if max(0.0, aside - rounding) + 0.1 * rounding > ASIDE * inner:  # the size of rounding is an expectation
        return BlendPlace.HIDDEN if pure or not rounding else BlendPlace.ASIDE
    return BlendPlace.NEAR
