"""Scratch: memory for pieces of a stored matrix, used again for every piece."""

from __future__ import annotations

import numpy as np

from hf_lineage.checkpoint import Memory, StoredRows
from hf_lineage.signature.computing.arrays import Tensor, by_columns, empty, fill


class Scratch:
    """Memory for pieces of a stored matrix in float32, at most `size` numbers each, used again for every piece."""

    def __init__(self, size: int, like: Tensor | StoredRows) -> None:
        self._memory = empty((size,), np.empty(0) if isinstance(like, StoredRows) else like)
        self._read = Memory()

    def rows(self, matrix: Tensor | StoredRows, chosen: slice) -> Tensor:
        """Return some rows of a matrix as float32."""
        return self.widened(matrix.read(chosen, self._read) if isinstance(matrix, StoredRows) else matrix[chosen])

    def widened(self, stored: Tensor) -> Tensor:
        """Return a piece (r, c) as float32, in the order in which it is stored: transposing it would cost far more."""
        if by_columns(stored):
            return self.widened(stored.mT).mT
        rows, width = stored.shape
        wide = self._memory[: rows * width].reshape(rows, width)
        fill(wide, stored)
        return wide
