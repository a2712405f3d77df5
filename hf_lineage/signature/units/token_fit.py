"""Token fit: how the residual coordinates of two models belong together, from the rows of the tokens that both know.

A hidden unit with the direction b, in a stream where K tokens have the rows Y (K, d'), is a function of tokens: Y b. In
a stream where these tokens have the rows X (K, d), the vector that gives nearly the same function is, by least squares,

    (XᵀX + λ)⁻¹ Xᵀ Y b,    λ = ε tr(XᵀX) / d.

An orthogonal change of the coordinates of either model, or another order of its units, changes nothing in it. It is
always taken from the narrower stream into the wider one, and what it gives has to be brought to length 1 again. All
rows have length 1 before, or a few rows of unused tokens that were enlarged would decide the fit; then their mean is
taken away, which models that learned apart have in common. The ridge ε is chosen
by generalised cross-validation (Golub, Heath and Wahba 1979): the noisier the rows, the larger it is.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.recipe import Array, signs

RIDGES = 1e-3, 1e-2
"""The values of ε among which is chosen. With larger ones so few directions count that independent units agree."""
ASKED = 64
"""Random directions in which the error of a fit is measured."""
SEEN = 256
"""Coordinates in which units are seen; of wider streams random sums."""
LEAST = 1e-9
"""Rows whose numbers vary less, in the mean of their squares, are all the same."""
SPANNED = 0.5
"""Rows of tokens have to span this share of the narrower stream: in fewer directions most of a unit is not seen."""


class RidgeFit:
    """Least squares with a ridge, for the rows of the tokens of one model."""

    def __init__(self, rows: Array, narrower: int) -> None:
        """Take the rows (K, d) of the tokens of a stream; `narrower` is the width of the narrower stream of the two.

        Raise NothingToCompare where they are not finite, or span too few directions.
        """
        self.rows = _of_length_one(rows)
        self.rows -= self.rows.mean(axis=0)
        self._square = self.rows.T @ self.rows
        self._mean = float(np.trace(self._square)) / self.width
        self._factors: dict[float, tuple[Array, bool]] = {}
        spanned = self._freedom(RIDGES[0]) if self._mean > LEAST else 0.0
        if spanned < SPANNED * narrower:
            raise NothingToCompare(
                f"the rows of {len(rows)} tokens span only about {spanned:.0f} of the {self.width} directions of its "
                "stream"
            )

    @property
    def width(self) -> int:
        """The width d of the stream."""
        return int(self.rows.shape[1])

    def solve(self, columns: Array, ridge: float) -> Array:
        """Return (XᵀX + λ)⁻¹ of columns (d, n)."""
        if ridge not in self._factors:
            self._factors[ridge] = self._factorised(ridge)
        solved: Array = cho_solve(self._factors[ridge], columns, check_finite=False)
        return solved

    def error(self, other: Array, ridge: float) -> float:
        """Return how badly the fit gives some sums of the rows (K, d') of the other model, overfitting counted."""
        sums = other @ signs("sums of a token fit", (other.shape[1], ASKED))
        left = sums - self.rows @ self.solve(self.rows.T @ sums, ridge)
        free = 1 - self._freedom(ridge) / len(sums)
        return float(np.square(left, dtype=np.float64).mean()) / max(free, 1e-6) ** 2

    def _factorised(self, ridge: float) -> tuple[Array, bool]:
        square = self._square.copy()
        square.flat[:: len(square) + 1] += ridge * self._mean
        factor: tuple[Array, bool] = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        return factor

    def _freedom(self, ridge: float) -> float:
        """Return tr (XᵀX + λ)⁻¹ XᵀX = d - λ tr (XᵀX + λ)⁻¹, by random signs (Hutchinson 1990)."""
        drawn = signs("freedom of a token fit", (self.width, ASKED))
        trace = float((drawn * self.solve(drawn, ridge)).sum()) / ASKED
        return self.width - ridge * self._mean * trace


def between(base: RidgeFit, candidate: RidgeFit) -> tuple[Array, Array]:
    """Return what the units of the base and of the candidate are multiplied with, (s, d) each, to be seen alike.

    The rows of both belong to the same tokens.
    """
    if base.width >= candidate.width:
        seen = seen_through(base.width)
        return seen, _carried(base, candidate.rows, seen)
    seen = seen_through(candidate.width)
    return _carried(candidate, base.rows, seen), seen


def _carried(wide: RidgeFit, narrow: Array, seen: Array) -> Array:
    """The matrix (s, d') through which units of the narrower stream are seen in coordinates of the wider one."""
    ridge = min(RIDGES, key=lambda ridge: wide.error(narrow, ridge))
    carried = (wide.rows @ wide.solve(seen.T, ridge)).T @ narrow
    return carried.astype(np.float32, copy=False)


def _of_length_one(rows: Array) -> Array:
    largest: Array = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    if not np.isfinite(largest).all() or not largest.any():
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    scaled: Array = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    np.divide(scaled, lengths, out=scaled, where=lengths > 0)
    return scaled


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))
