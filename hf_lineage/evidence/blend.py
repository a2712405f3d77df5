"""Blend: whether a model was put together from several parents, by the matrices themselves.

A share alone shows no parent: a fine-tune has a share of its siblings, which learned from the same text, and of its own
descendants. The place of the model tells a blend: a blend of A and B is on the line between A and B.
Training moves almost at right angles to earlier changes. So a model X sees its base A and a descendant of X at a right
angle. It sees A and a sibling of X, or A and the model that X was itself trained on from, at an acute angle.
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

UNSURE = 0.1  # the part of the squared rounding that may not be rounding, for its size is an expectation
ASIDE = 0.1
"""Largest squared distance of a blend from the line between its parents, over the product of the two parts of the line.
The quotient is 1 at a right angle, and more for siblings."""
INNER = 0.25
"""Least product of the two parts, over its value if all matrices have the same shares: for whole matrices it is 0."""
FEWEST, FEW = 2, 0.1
"""Fewest matrices that have to lie on the line, and their least part of all matrices: further training may have left
some of them as they were."""
ROUNDED = 3.0
"""Largest squared remainder of a blend that was not trained on, in multiples of the squared rounding: products and sums
are rounded as well."""
BACK, STRAIGHT = 0.8, 2.0
"""Least and largest squared remainder of a blend, in multiples of the squared rounding. A blend is rounded itself: a
line followed back from a parent leaves less. Checkpoints of a training that went nearly straight leave more."""


class BlendPlace(Enum):
    """The place of a model beside one parent, as the matrices show it; the values are identifiers in reports."""

    BLEND = "blend"
    """The model lies on the line between the parents, but for rounding: a blend, or they went further along it."""
    FROM_MODEL = "from_model"
    """It lies closer to the line than the rounding of a blend allows: one of the others was computed from it."""
    SHARED = "shared"
    """It lies on the line, and parents differ by a change of low rank: all may share one, at several strengths."""
    PIECES = "pieces"
    """Some matrices are those of the parent: the model took them, or the parent came from it and changed the others."""
    NEAR = "near"  # the model lies near the line, as a blend that was trained on, and as a checkpoint of one training
    ASIDE = "aside"  # there is a share that siblings and descendants have as well
    HIDDEN = "hidden"  # there is a share, and the rounding of the model hides where it lies
    NONE = "none"  # there is no share, or all of it


@dataclass(frozen=True)
class Blend:
    """A model as the combination of its parents that is nearest to it."""

    shares: Shares  # the shares over all matrices together
    by_branch: Mapping[str, Shares]
    explained: float
    """The part of the squared distance from the nearest parent that the combination explains; rounding is left out."""
    remainder: float | None
    """The size of what is left, in multiples of what rounding leaves; None where the rounding is not known."""
    places: tuple[BlendPlace, ...]  # the place of the model beside each parent, in the order of the parents

    @property
    def pure(self) -> bool | None:
        """Whether nothing is left but rounding; None where that cannot be told."""
        return None if self.remainder is None else self.remainder**2 <= ROUNDED


def blend_of(matrices: Sequence[Products], count: int, depth: int, first: Sequence[int] = ()) -> Blend:
    """Return a model of so many layers as a combination of so many parents.

    Of parents that equal others, or combinations of them, those that are `first` count, and then the others in order.
    """
    branches = {
        branch: shares_of([one for one in matrices if one.branch == branch], count, depth)
        for branch in sorted({one.branch for one in matrices})
    }
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
    nearest = min((_from(matrices, parent) for parent in range(count)), default=0.0)
    remainder = math.sqrt(remains / rounding) if known and rounding > 0 else None
    pure = remains <= ROUNDED * rounding * known
    return Blend(
        shares,
        branches,
        1.0 if nearest <= rounding else 1 - min(1.0, max(0.0, remains - rounding) / nearest),
        remainder,
        tuple(_place_of_blend(weighed, parent, share, pure, known) for parent, share in enumerate(shares.parents)),
    )


def _from(matrices: Sequence[Products], parent: int) -> float:
    """Return the squared distance of the model from one parent; not finite unless all matrices are like it."""
    alike = [one for one in matrices if parent in one.active]
    apart = sum(square_distance(one.gram, one.active.index(parent), len(one.active)) for one in alike)
    return apart if len(alike) == len(matrices) else math.inf


def _place_of_blend(
    weighed: Sequence[tuple[Products, Vector]], parent: int, share: Share | str, pure: bool, known: bool
) -> BlendPlace:
    """Return the place of the model beside one parent, from matrices with the weights of their parents.

    `pure` says that rounding may be all that is left, `known` that its size is known.
    """
    if isinstance(share, str) or not share.clear or share.low <= LEAST or share.high >= 1 - LEAST:
        return BlendPlace.NONE
    pairs = [(one, some) for one, some in weighed if parent in one.active and len(one.active) > 1]
    if not pairs:
        return BlendPlace.PIECES  # no matrix is like two parents
    ranks = frozenset[bool | None]().union(*(one.low_rank for one, _ in pairs))
    if pure and True in ranks and False not in ranks:
        return BlendPlace.SHARED
    lines = [_line(one.gram, some, one.active.index(parent), share.value) for one, some in pairs]
    aside, inner, even = (sum(numbers) for numbers in zip((0.0, 0.0, 0.0), *lines, strict=True))
    rounding = sum(one.rounding or 0.0 for one, _ in pairs) if known else 0.0
    found = Counter(_place(one, weights, one.active.index(parent)) for one, weights in pairs)
    most = max((BlendPlace.FROM_MODEL, BlendPlace.BLEND), key=lambda place: found[place])
    if found[most] >= max(FEWEST, FEW * len(pairs)):
        return most
    if inner < INNER * even:
        return BlendPlace.PIECES if pure else BlendPlace.ASIDE
    if max(0.0, aside - rounding) + UNSURE * rounding > ASIDE * inner:
        return BlendPlace.HIDDEN if pure or not rounding else BlendPlace.ASIDE
    return BlendPlace.NEAR


def _place(one: Products, weights: Vector, at: int) -> BlendPlace | None:
    own, remains = weights[at] / weights.sum(), residual(one.gram, weights)
    if not (one.digits and one.rounding and LEAST < own < 1 - LEAST and remains <= STRAIGHT * one.rounding):
        return None
    return BlendPlace.FROM_MODEL if remains < BACK * one.rounding else BlendPlace.BLEND


def _line(gram: Vector, weights: Vector, at: int, share: float) -> tuple[float, float, float]:
    """Return the squared distance of the model from the line between one parent and the combination of the others.

    Then the product of both parts of the line, and its value if every matrix had the same share.
    """
    own, rest = weights[at] / weights.sum(), np.delete(weights, at)
    others = np.zeros(len(gram))
    if rest.sum():
        others[[place for place in range(len(weights)) if place != at]] = rest / rest.sum()
    others[at] -= 1
    others[0] = 0  # all are differences from the first parent
    length = float(others @ gram @ others)
    return residual(gram, weights), float(own * (1 - own)) * length, share * (1 - share) * length
