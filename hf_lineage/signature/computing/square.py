"""Square: XᵀX of the rows of a matrix that come some at a time, in the memory of one square (BLAS syrk)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk

Array = NDArray[np.float32]
TILE = 256
"""Rows of a square that are mirrored at a time."""


def sum_squares(blocks: Iterable[Array], width: int) -> Array:
    """Return the sum of XᵀX (width, width) over matrices X (n, width) of contiguous rows."""
    square = np.zeros((width, width), np.float32, order="F")
    for rows in blocks:
        square = ssyrk(1.0, rows.T, beta=1.0, c=square, overwrite_c=True)
    mirror(square)
    return square


def mirror(square: Array) -> None:
    """Copy what is above the diagonal to where it belongs below it, in place."""
    for start in range(0, len(square), TILE):
        stop = start + TILE
        block = np.triu(square[start:stop, start:stop])
        square[start:stop, start:stop] = block + np.triu(block, 1).T
        square[stop:, start:stop] = square[start:stop, stop:].T
