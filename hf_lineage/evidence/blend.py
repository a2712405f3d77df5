"""Blend: whether a model was put together from several parents, by the matrices themselves.

A share alone shows no parent: a fine-tune has one of its siblings, which learned from the same text, and of its own
descendants. A blend of A and B is on the line between A and B. Training moves almost at right angles to earlier
changes: a model X sees its base A and a descendant of X at a right angle, A and a sibling of X at an acute one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from hf_lineage.evidence.change import residual, solve, square_distance
from hf_lineage.evidence.merge import DEPENDENT, LEAST, Products, Share, Shares, independent, shares_of
from hf_lineage.signature.recipe import Vector

ASIDE = 0.1  # largest squared distance from the line, over the product of its parts: 1 at a right angle, siblings more
ROUNDED = 3.0  # largest squared remainder of a blend that was not trained on, over the squared rounding
# Least and largest squared remainder of a blend, over the squared rounding. A blend is rounded itself: a line followed
# back from a parent leaves less, checkpoints of a training that went nearly straight leave more.
BACK, STRAIGHT = 0.8, 2.0


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
        own, length = weights[at] / weights.sum(), _length_of_line(one.gram, weights, at)
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


def _length_of_line(gram: Vector, weights: Vector, at: int) -> float:
    """Return the squared length of the line between one parent and the combination of the others."""
    rest, others = np.delete(weights, at), np.zeros(len(gram))
    if rest.sum():
        others[[place for place in range(len(weights)) if place != at]] = rest / rest.sum()
    others[at] -= 1
    others[0] = 0  # all are differences from the first parent
    return float(others @ gram @ others)
