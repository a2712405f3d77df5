"""Whitening: G^(-1/2) of the products G of the columns of a matrix, as it makes an orthogonal factor of that matrix.

It is never formed: what is wanted is its product with a few columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class WhiteningMatrix:
    """G^(-1/2), less the directions that are left out."""

    directions: Matrix
    """(d, r): of length 1."""
    over: Matrix
    """(r,): one over the root of what lies in each."""

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
