"""Square: XᵀX of the rows of a matrix that come some at a time, in the memory of one square (BLAS syrk).

And its inverse root G^(-1/2), which makes the matrix orthogonal. That is never formed, because only its product with a
few columns is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk

Array = NDArray[np.float32]
Matrix = NDArray[np.float64]
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
    """Copy the numbers above the diagonal to their places below it."""
    for start in range(0, len(square), TILE):
        stop = start + TILE
        block = np.triu(square[start:stop, start:stop])
        square[start:stop, start:stop] = block + np.triu(block, 1).T
        square[stop:, start:stop] = square[start:stop, stop:].T


@dataclass(frozen=True)
class WhiteningMatrix:
    """G^(-1/2) without the directions that are left out."""

    directions: Matrix
    """(d, r): directions of length 1."""
    over: Matrix
    """(r,): one over the square root of G along each direction."""

    @property
    def rank(self) -> int:
        """The number of directions r."""
        return len(self.over)

    def times(self, columns: Matrix) -> Matrix:
        """Return its product with columns (d, n)."""
        product: Matrix = (self.directions * self.over) @ (self.directions.T @ columns)
        return product


def compute_whitening(square: Matrix, least: float) -> WhiteningMatrix:
    """Return G^(-1/2) of a positive G (d, d); directions whose root is below `least` of the largest are left out."""
    squares, directions = np.linalg.eigh(square)
    kept = squares > max(least**2 * squares[-1], 0.0)
    return WhiteningMatrix(directions[:, kept], 1 / np.sqrt(squares[kept]))
