"""Matrices: one matrix of a model beside those of its parents, as the inner products that shares are computed from.

The numbers of a blend were rounded when it was stored. Where parents differ by no more than the format tells apart, the
blend equals the one or the other, and its weights do not show. Such numbers are left out; which they are is known from
the parents and the format alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.evidence.derivation.change import is_low_rank
from hf_lineage.evidence.derivation.combination import rebased
from hf_lineage.evidence.derivation.rounding import DIGITS, Matrix, spacing
from hf_lineage.signature import Vector

PARTS = 8
"""Parts into which the rows of a matrix are divided; the scatter between them gives the interval."""
FINE = 4.0
"""Least distance between parents, in the spacing of the format in which the model is stored."""
FEWEST = 256
"""Fewest numbers of a matrix that must be so far apart."""
RANKED, FLOAT = 128, DIGITS["F32"]
"""Rows from which the rank of parents' differences is measured, and the binary digits of numbers that are decoded."""


@dataclass(frozen=True)
class Products:
    """One matrix of a model, beside those of the parents that it is like."""

    layer: int
    """The number of the model's layer."""
    branch: str
    active: tuple[int, ...]
    """The parents of which it may be a part; n of them."""
    grams: Vector
    """(PARTS, n + 1, n + 1): inner products as `combination` takes them, by parts of the rows."""
    rounding: float | None
    """The squared size of what storing the model added; None where the grid of its numbers is not known."""
    digits: int
    """The binary digits with which the model is stored; 0 where it is decoded."""
    low_rank: frozenset[bool | None] = frozenset()
    """Whether other parents differ from the first by a change of low rank; None where rounding hides it."""

    @property
    def gram(self) -> Vector:
        """(n + 1, n + 1), over all parts."""
        total: Vector = self.grams.sum(axis=0)
        return total

    def only(self, parents: Sequence[int]) -> Products | None:
        """Return the matrix beside some of the parents, which are numbered anew; None if it is like none of them."""
        places = [self.active.index(one) for one in parents if one in self.active]
        if not places:
            return None
        return replace(
            self,
            active=tuple(number for number, one in enumerate(parents) if one in self.active),
            grams=rebased(self.grams, (*places, len(self.active))),
        )

    def without(self, part: int) -> Products:
        """Return the matrix without one part of its rows."""
        return replace(self, grams=np.delete(self.grams, part, axis=0))


@dataclass(frozen=True)
class Stored:
    """A matrix with what is known of the format it is stored in."""

    numbers: Matrix
    """(r, c)"""
    digits: int = 0
    """The binary digits with which they are stored; 0 where they are decoded."""
    spacing: Matrix | None = None
    """Distance of neighbouring numbers of a floating-point format, around each number; None where it is decoded."""
    step: Matrix | None = None
    """Distance of neighbouring values of a quantization; None where there is none, or its grid was not found."""


def inner_products(layer: int, branch: str, parents: Sequence[tuple[int, Stored]], model: Stored) -> Products | None:
    """Return one matrix beside those of some parents, by their numbers; None where nothing can be told by it.

    That is so where a number is not finite, and where the parents differ by less than the format tells apart.
    """
    first, kept = parents[0][1].numbers, _kept([one.numbers for _, one in parents], model)
    if kept is None or not all(np.isfinite(one.numbers).all() for one in (*(one for _, one in parents), model)):
        return None
    grams = [rows @ rows.T for rows in _rows(first, [one.numbers for _, one in parents[1:]], model.numbers, kept)]
    if not sum(gram[0, 0] for gram in grams):
        return None
    steps = [one for one in (model.spacing, model.step) if one is not None]
    step = np.max(steps, axis=0) if steps else None
    rounding = None if step is None else float((np.where(kept, step, 0).astype(np.float64) ** 2).sum()) / 12
    return Products(
        layer,
        branch,
        tuple(number for number, _ in parents),
        np.stack(grams),
        rounding,
        model.digits,
        frozenset(is_low_rank(first[:RANKED], one.numbers[:RANKED], model.digits or FLOAT) for _, one in parents[1:]),
    )


def _kept(parents: Sequence[Matrix], model: Stored) -> Matrix | None:
    """Return which numbers (r, c) of the parents are far enough apart, all where no format is known; None if few."""
    kept = np.ones(model.numbers.shape, bool)
    if not model.digits or len(parents) < 2:
        return kept
    apart = np.max([np.abs(parent - parents[0]) for parent in parents[1:]], axis=0)
    kept = apart >= FINE * spacing(parents[0], model.digits)
    return kept if kept.sum() >= FEWEST else None


def _rows(first: Matrix, others: Sequence[Matrix], model: Matrix, kept: Matrix) -> Iterator[Vector]:
    """Yield, by parts of the rows, the first parent and all differences from it, (n + 1, numbers)."""
    for rows in np.array_split(np.arange(len(model)), PARTS):
        chosen = kept[rows]
        origin = first[rows][chosen].astype(np.float64)
        yield np.stack([origin, *(one[rows][chosen].astype(np.float64) - origin for one in (*others, model))])
