"""Grid: a matrix in blocks, each with a scale and perhaps a zero point of its own, decoded a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.numbers import single, widen
from hf_lineage.errors import CheckpointError

AT_ONCE = 2**19
"""Numbers that are decoded at a time, so that what lies between the stored and the decoded ones stays small."""

Unpack = Callable[[slice, NDArray[np.float32]], None]
"""Writes some rows of a matrix, not yet scaled, into an array in float32 of their shape."""


@dataclass(frozen=True)
class Grid:
    """A matrix and the size of its blocks; blocks at its right and lower edge may be smaller."""

    shape: tuple[int, int]
    block: tuple[int, int]
    rows: NDArray[np.intp] | None = None
    """The block of each row, where the rows of one block do not lie side by side."""
    columns: NDArray[np.intp] | None = None
    """The block of each column, where the columns of one block do not lie side by side."""

    @property
    def cells(self) -> tuple[int, int]:
        """How many blocks there are one below the other, and side by side."""
        return -(-self.shape[0] // self.block[0]), -(-self.shape[1] // self.block[1])

    def decoded(
        self, unpack: Unpack, scales: NDArray[np.float32], zeros: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return (numbers - zeros) x scales, with scales and zeros given as `cells`."""
        whole = np.empty(self.shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found where it is compared
            for rows in self._slices():
                unpack(rows, whole[rows])
                if zeros is not None:
                    whole[rows] -= self._spread(zeros, rows)
                whole[rows] *= self._spread(scales, rows)
        return whole

    def widened(
        self, stored: NDArray[Any], scales: NDArray[np.float32], zeros: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return a matrix that is stored as one number to a number, decoded as above."""
        return self.decoded(lambda rows, target: widen(target, stored[rows]), scales, zeros)

    def _slices(self) -> Iterator[slice]:
        """A few rows at a time: of one row of blocks, unless these have only one row each."""
        height, (rows, columns) = self.block[0], self.shape
        few = max(1, AT_ONCE // columns)
        step = height if self.rows is None and 1 < height < rows else few
        return (slice(start, min(start + step, rows)) for start in range(0, rows, step))

    def _spread(self, values: NDArray[np.float32], rows: slice) -> NDArray[np.float32]:
        """The values of the blocks in which the numbers of some rows lie, for as many rows or for all of them."""
        height, width = self.block
        if self.rows is not None:
            some = values[self.rows[rows]]
        else:
            some = values[rows.start // height : (rows.stop - 1) // height + 1]
        if self.columns is not None:
            return some[:, self.columns]
        return some if width == 1 or values.shape[1] == 1 else np.repeat(some, width, axis=1)[:, : self.shape[1]]


def finite(name: str, stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return scales in float32; raise CheckpointError if one of them is infinite or not a number."""
    scales = single(stored)
    if not np.isfinite(scales).all():
        raise CheckpointError(f"{name} holds scales that are not finite; the weights are damaged, download them again")
    return scales
