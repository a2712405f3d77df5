"""Whitening: G^(-1/2), where G holds the inner products of the columns of a matrix, makes the matrix orthogonal.

It is never formed as a matrix, because only its product with a few columns is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class WhiteningMatrix:
    """G^(-1/2) without the directions that are left out."""

    directions: Matrix
    """(d, r): of length 1."""
    over: Matrix
    """(r,): one over the square root of G along each direction."""

    @property
    def rank(self) -> int:
        """How many directions there are."""
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
