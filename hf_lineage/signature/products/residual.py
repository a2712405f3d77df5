"""Residual: the product M of a branch, capped, centred and multiplied with the probes.

Every hidden unit u adds out_u inn_uᵀ to M. A first pass over both matrices measures what each unit adds, since
the cap depends on the median of all units; a second pass over the writers multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hf_lineage.signature.computing import CPU, Device, Scratch, Share, Tensor, on_device, on_host, zeros
from hf_lineage.signature.frame import FRAMES, STREAM, Frame
from hf_lineage.signature.products.term import UNITS, Term, Tile, pieces
from hf_lineage.signature.recipe import Array, Recipe
from hf_lineage.signature.units import Units, cap, survey, unit_codes
from hf_lineage.signature.values import UnitCodes

ROWS = 128
"""Residual coordinates of a writer that are multiplied at a time."""
NORM_EPSILON = 1e-6
"""The ε that norms commonly add to a mean square before they divide by its root."""


@dataclass(frozen=True)
class Probes:
    """The probes of a recipe, on one device.

    Z (width, k), or some columns of the identity; S (m,); and signs (m, UNIT_SIGNS) for what its units read and write.
    """

    width: int
    """The dimension of the frame."""
    matrix: Tensor | slice
    coordinates: Tensor
    signs: Tensor
    ones: Tensor
    """(width,)"""
    frame: Frame = FRAMES[STREAM]
    readers: Recipe | None = None
    """The recipe by which rows of readers are summed; None where nobody asks for their sums."""

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        width: int,
        device: Device = CPU,
        columns: slice = slice(None),
        most: int | None = None,
        readers: bool = False,
    ) -> Probes:
        """Return a recipe's probes on a device; in exact mode those columns of the identity. S has at most `most`.

        With `readers` they also make the sums that the shares of a merge are measured on.
        """
        matrix, coordinates = recipe.probe_matrix(width), recipe.test_coordinates(width, most)
        return cls(
            width,
            columns if matrix is None else on_device(matrix, device),
            on_device(coordinates, device),
            on_device(recipe.unit_signs(len(coordinates)), device),
            on_device(np.ones(width, np.float32), device),
            FRAMES[recipe.frame],
            recipe if readers and recipe.frame == STREAM else None,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k) of Z."""
        if isinstance(self.matrix, slice):
            return self.width, len(range(self.width)[self.matrix])
        return self.width, self.matrix.shape[1]

    @property
    def sketched(self) -> int:
        """K where Z is made of random signs, 0 where it is a part of the identity."""
        return 0 if isinstance(self.matrix, slice) else self.matrix.shape[1]

    def tile(self, tile: Tile) -> Tile:
        """Return some hidden units with both of their rows in the frame."""
        if self.frame is FRAMES[STREAM]:
            return tile
        gate = None if tile.gate is None else self.frame.rows(tile.gate)
        return tile._replace(out=self.frame.rows(tile.out), inn=self.frame.rows(tile.inn), gate=gate)

    def written(self, term: Term, rows: slice | Tensor, units: slice, mean: Tensor, scratch: Scratch) -> Tensor:
        """Return some rows of some units of a term's writer in the frame, (r, t); `mean` as in `Term.written`."""
        if self.frame is FRAMES[STREAM]:
            return term.written(rows, units, mean, scratch)
        room = Scratch(len(term.writer) * len(mean), term.writer)
        return self.frame.rows(term.written(slice(None), units, mean, room).mT).mT[rows]

    def seen(self, rows: Tensor) -> Tensor:
        """Return rows (t, width) @ Z, (t, k)."""
        return rows[:, self.matrix] if isinstance(self.matrix, slice) else rows @ self.matrix

    def centre(self, product: Array, identity: float, ones: float) -> None:
        """Take (identity I + ones 11ᵀ) Z off a product (width, k), in place."""
        if isinstance(self.matrix, slice):
            _diagonal(product[self.matrix])[:] -= identity
            product -= ones
            return
        matrix = on_host(self.matrix)
        product -= identity * matrix + ones * matrix.sum(axis=0)


Surveyed = Sequence[tuple[Term, Units]]
"""The terms of a branch, each with the measurements of its units."""


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: Array
    corner: Array
    trace: float
    norm: float
    writes: float
    units: UnitCodes
    readers: Array
    """(g, k): random sums of the rows of all readers, seen through the probes; no rows where nobody asked for them."""


def summarise(branch: Iterable[Term], probes: Probes, recipe: Recipe, share: Share) -> Block:
    """Return what the signature holds of one branch: its centred residual R multiplied with the probes, tr M and ‖M‖_F.

    R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    """
    surveyed = [(term, survey(term, probes, share)) for term in branch]
    weights = np.concatenate([units.norm for _, units in surveyed])
    codes = unit_codes([units for _, units in surveyed])
    readers = _readers([units for _, units in surveyed], probes.shape[1])
    if recipe.cap is not None:
        cap([units for _, units in surveyed], recipe.cap, recipe.cap_median)
    product, corner = multiply(surveyed, probes, share)
    norm = float(np.linalg.norm(product.astype(np.float64)))
    trace = sum(float(units.trace.sum(dtype=np.float64)) for _, units in surveyed)
    total = sum(float(units.total.sum(dtype=np.float64)) for _, units in surveyed)
    ones = (total - trace) / (probes.width * (probes.width - 1)) if recipe.ones and probes.frame.ones else 0.0
    identity = trace / probes.width - ones
    probes.centre(product, identity, ones)
    _diagonal(corner)[:] -= identity
    corner -= ones
    writes = written(surveyed, float(np.linalg.norm(weights)), norm)
    if not all(np.isfinite(value).all() for value in (product, corner, norm, writes)):
        nothing = map(np.zeros_like, (product, corner, readers))
        product, corner, readers = nothing
        return Block(product, corner, math.nan, math.nan, math.nan, codes, readers)
    return Block(product, corner, trace, norm, writes, codes, readers)


def _readers(surveyed: Sequence[Units], columns: int) -> Array:
    """The sums over the readers of all terms (g, k): zeros where they are not finite, no rows without them."""
    sums = [one for units in surveyed for one in units.sums]
    total: Array = np.sum(sums, axis=0, dtype=np.float32) if sums else np.zeros((0, columns), np.float32)
    return total if np.isfinite(total).all() else np.zeros_like(total)


def _diagonal(matrix: Array) -> Array:
    """The diagonal of a matrix as a view that can be written."""
    diagonal: Array = np.einsum("ii->i", matrix[: len(matrix.T), : len(matrix)])
    return diagonal


def written(branch: Surveyed, total: float, norm: float) -> float:
    """Return how much a branch writes: the norm of what its units write or, if a norm follows, the size of its output.

    A norm removes the size of its input, if that is above the square root of its ε; ‖M‖_F / ‖γ‖ is about that size.
    """
    gains = [term.writer_gain for term, _ in branch if term.normed and term.writer_gain is not None]
    size = float(np.linalg.norm(on_host(gains[0]).astype(np.float64))) if gains else 0.0
    if not gains or size == 0:
        return total if not gains else 0.0
    given = norm / size
    return size * given / math.hypot(given, math.sqrt(NORM_EPSILON))


class _Target(NamedTuple):
    """Some rows of the writers, the factor for the rows of each term, and where the sum is added."""

    rows: slice | Tensor
    seen: tuple[Tensor, ...]
    product: Tensor


def multiply(branch: Surveyed, probes: Probes, share: Share) -> tuple[Array, Array]:
    """Return M Z (width, k) and M[S, S] (m, m): the second pass over the writers, some rows of them at a time."""
    chosen = probes.coordinates
    product = zeros(probes.shape, chosen)
    corner = zeros((len(chosen), len(chosen)), chosen)
    seen = tuple(units.seen for _, units in branch)
    targets = [_Target(chosen, tuple(units.corner for _, units in branch), corner)]
    targets += [_Target(rows, seen, product[rows]) for rows in pieces(probes.width, ROWS)]

    def write(targets: Iterator[_Target]) -> None:
        scratch = Scratch(max(ROWS, len(chosen)) * UNITS, product)
        for target in targets:
            for (term, units), through in zip(branch, target.seen, strict=True):
                for some in pieces(len(through), UNITS):
                    writer = probes.written(term, target.rows, some, units.mean[some], scratch)
                    total = target.product
                    total += writer @ through[some]

    share(write, targets)
    return on_host(product), on_host(corner)
