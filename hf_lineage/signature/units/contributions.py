"""Units: what every hidden unit or head of a term adds to a branch product, as far as it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.computing import Scratch, Tensor, beside, empty
from hf_lineage.signature.products import Term, Tile
from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS, Array, Recipe, Vector


class ProbeView(Protocol):
    """The probes of a recipe, as far as the survey needs them."""

    @property
    def coordinates(self) -> Tensor:
        """(m,): the test coordinates S."""

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k)."""

    @property
    def signs(self) -> Tensor:
        """(m, UNIT_SIGNS): ±1, through which the test coordinates of a unit are seen."""

    @property
    def ones(self) -> Tensor:
        """(width,): ones, with which rows are summed."""

    @property
    def sketched(self) -> int:
        """K where the probes are random signs, 0 where they are columns of the identity."""

    def tile(self, tile: Tile) -> Tile:
        """Return some hidden units with both of their rows in the frame."""

    def written(self, term: Term, rows: slice | Tensor, units: slice, mean: Tensor, scratch: Scratch) -> Tensor:
        """Return some rows of some units of a term's writer in the frame, (r, t)."""

    def seen(self, rows: Tensor) -> Tensor:
        """Return rows (t, width) @ Z, (t, k)."""

    @property
    def readers(self) -> Recipe | None:
        """The recipe by which rows of readers are summed; None where nobody asks for their sums."""


@dataclass(frozen=True)
class Units:
    """What every hidden unit of a term adds to M: what is multiplied on its device, all else as arrays of NumPy."""

    seen: Tensor
    """(h, k): inn Z."""
    corner: Tensor
    """(h, m): inn[:, S]."""
    mean: Tensor
    """(h,): the mean that centring subtracts from its column of the writer."""
    trace: Array
    """(h,): its share of tr M."""
    total: Array
    """(h,): its share of 1ᵀ M 1."""
    norm: Vector
    """(h / part,): ‖C_g‖_F of every part C_g = out_g @ inn_g."""
    spread: Vector
    """(h,): the norm of the row inside the activation."""
    centre: Vector
    """(h,): what β of the norm in front adds to the input of the activation."""
    inner: NDArray[np.bool_]
    """(h / part, signs): whether random sums of its reader, or entries of a head's product, are positive."""
    outer: NDArray[np.bool_]
    """(h / part, signs): the same of its writer; no signs for heads."""
    gate: NDArray[np.bool_]
    """(h / part, signs): the same of its gate; no signs where it has none."""
    sums: list[Array]
    """(g, k): random sums of the rows of the reader as it is stored, seen through the probes, if they are asked for."""

    @classmethod
    def empty(cls, term: Term, probes: ProbeView) -> Units:
        """Return the units of a term with uninitialised values."""
        hidden, parts = len(term.reader), len(term.reader) // term.part
        _, columns = probes.shape
        size = len(probes.coordinates)
        inner, outer = (UNIT_SIGNS, UNIT_SIGNS) if term.part == 1 else (min(size, HEAD_COORDINATES) ** 2, 0)
        return cls(
            seen=empty((hidden, columns), term.writer),
            corner=empty((hidden, size), term.writer),
            mean=empty((hidden,), term.writer),
            trace=np.empty(hidden, np.float32),
            total=np.empty(hidden, np.float32),
            norm=np.empty(parts),
            spread=np.empty(hidden),
            centre=np.empty(hidden),
            inner=np.empty((parts, inner), np.bool_),
            outer=np.empty((parts, outer), np.bool_),
            gate=np.empty((parts, UNIT_SIGNS if term.gate else 0), np.bool_),
            sums=[],
        )

    def scale(self, factors: Vector) -> None:
        """Multiply every part by its own factor (h / part,); 0 gives 0 even for a part too large for float32.

        Weights that are not finite cannot be scaled away: the norm stays not finite.
        """
        per_unit = np.repeat(factors.astype(np.float32), len(self.trace) // len(factors))
        closed = np.flatnonzero(per_unit == 0).tolist()
        for value in (self.seen, self.corner):
            value *= beside(per_unit[:, None], value)
            value[closed] = 0
        for share in (self.trace, self.total):
            share *= per_unit
            share[closed] = 0
        np.multiply(self.norm, abs(factors), out=self.norm)
