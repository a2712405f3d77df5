"""Token coordinates: a linear map between two residual streams, from the rows of the tokens that both models share.

A hidden unit with the direction b, in a stream where K tokens have the rows Y (K, d'), is a function of tokens: Y b. In
another stream these tokens have the rows X (K, d). By least squares, nearly the same function is given by the vector

    (XᵀX + λ)⁻¹ Xᵀ Y b,    λ = ε tr(XᵀX) / d.

An orthogonal change of the coordinates of either model, or another order of its units, changes nothing in it. It is
always taken from the narrower stream into the wider one, and its result has to be brought to length 1 again. All rows
have length 1 before, or a few rows of unused tokens that were enlarged would decide the fit. Then their mean is taken
away, which models that learned apart have in common. The ridge ε is chosen by generalised cross-validation (Golub,
Heath and Wahba 1979): the noisier the rows, the larger it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.arrays import mirror
from hf_lineage.signature.recipe import Array, signs
from hf_lineage.signature.sample import indices, runs

RIDGES = 1e-3, 1e-2  # the values of ε to choose from. Larger ones leave so few directions that independent units agree
ASKED = 64  # random directions in which the error of a fit is measured
SEEN = 256  # the most coordinates in which units are compared; of a wider stream these are random sums
LEAST = 1e-9  # rows whose numbers have a smaller mean square count as all the same
SPANNED, ASKED_FIRST = 0.5, 1.5
"""The share of the narrower stream that rows of tokens have to span: fewer directions do not show most of a unit. And
the number of rows that are tried first, as a multiple of the directions that they have to span."""


def prepare_rows(rows: Array) -> None:
    """Bring the rows (K, d) of the tokens of a stream to length 1 and take their mean away, in place.

    Raise NothingToCompare where they are not finite.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))[:, None]
    if not np.isfinite(largest).all() or not largest.any():
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    np.divide(rows, largest, out=rows, where=largest > 0)
    lengths = np.sqrt(np.vecdot(rows, rows))[:, None]
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    rows -= rows.mean(axis=0)


def check_span(rows: Array, narrower: int) -> None:
    """Raise NothingToCompare where prepared rows (K, d) span too few directions.

    `narrower` is the width of the narrower stream of the two. More rows span no fewer directions, so some of the rows
    are tried first.
    """
    wanted = SPANNED * narrower
    few = round(ASKED_FIRST * wanted)
    if few < min(rows.shape) and Ridges(rows[:: len(rows) // few][:few].T).span >= wanted:
        return
    _enough(Ridges(rows).span, rows, narrower)


def _enough(spanned: float, rows: Array, narrower: int) -> None:
    """Raise NothingToCompare where rows span about so many directions, and these are too few."""
    if spanned < SPANNED * narrower:
        raise NothingToCompare(
            f"the rows of {len(rows)} tokens span only about {spanned:.0f} of the {rows.shape[1]} directions of its "
            "stream"
        )


class Ridges:
    """The square XᵀX of some rows X (K, d), and its factors with one ridge or another."""

    def __init__(self, rows: Array) -> None:
        self._square = (rows.T @ rows).T  # symmetric, and in the order of LAPACK, which would copy it otherwise
        self._diagonal = self._square.diagonal().copy()
        self._mean = float(self._diagonal.mean(dtype=np.float64))

    def factor(self, ridge: float) -> None:
        """Take the Cholesky factor of XᵀX + λ for a ridge ε; it takes the place of the one before."""
        from scipy.linalg import cho_factor

        square, self._ridge = self._square, ridge * self._mean
        mirror(square)  # a factor leaves the upper triangle as it was
        np.fill_diagonal(square, self._diagonal + self._ridge)
        self._triangle = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, columns: Array) -> Array:
        """Return (XᵀX + λ)⁻¹ of columns (d, n)."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._triangle, columns, check_finite=False))

    @property
    def freedom(self) -> float:
        """Tr (XᵀX + λ)⁻¹ XᵀX = d - λ tr (XᵀX + λ)⁻¹, by random signs (Hutchinson 1990)."""
        width = len(self._square)
        drawn = signs("freedom of a token fit", (width, ASKED))
        return width - self._ridge * float((drawn * self.solve(drawn)).sum()) / ASKED

    @property
    def span(self) -> float:
        """The number of directions, about, in which the rows lie."""
        if not self.differ:
            return 0.0
        self.factor(RIDGES[0])
        return self.freedom

    @property
    def differ(self) -> bool:
        """Whether the rows are not all the same."""
        return self._mean > LEAST


def fit_tokens(wide: Array, narrow: Array) -> tuple[Array, Array]:
    """Return matrices that bring units of the wider stream (s, d), and of the narrower (s, d'), to shared coordinates.

    `wide` and `narrow` are the prepared rows (K, width) of the same tokens. Raise NothingToCompare where the wider rows
    span too few directions.
    """
    ridges, seen = Ridges(wide), seen_through(wide.shape[1])
    if not ridges.differ:
        _enough(0, wide, narrow.shape[1])
    sums = narrow @ signs("sums of a token fit", (narrow.shape[1], ASKED))
    columns = np.hstack((seen.T, wide.T @ sums))

    def fit_ridge(ridge: float) -> tuple[float, Array]:
        ridges.factor(ridge)
        freedom = ridges.freedom
        if ridge == RIDGES[0]:
            _enough(freedom, wide, narrow.shape[1])
        solved, given = np.hsplit(ridges.solve(columns), (len(seen),))
        return measure_error(sums - wide @ given, freedom), solved

    _, solved = min(map(fit_ridge, RIDGES), key=itemgetter(0))
    return seen, ((wide @ solved).T @ narrow).astype(np.float32, copy=False)


def measure_error(left: Array, freedom: float) -> float:
    """Return the error with which the wider rows give some sums of the narrower ones, corrected for overfitting.

    `left` is the remainder of the fit (K, n), and `freedom` the number of directions in which it was fitted.
    """
    free = 1 - freedom / len(left)
    return float(np.square(left, dtype=np.float64).mean()) / max(free, 1e-6) ** 2


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))


Numbers = NDArray[np.int64]
LEAST_TOKENS, MOST_TOKENS, SIDE_BY_SIDE = 2, 4, 64
"""Tokens for every coordinate of the wider stream: at least and, if few, at most; rows are read SIDE_BY_SIDE."""
FEW = 4096  # up to so many tokens are few


def drawn_tokens(shared: int, widths: Sequence[int]) -> Numbers:
    """Return the numbers of the shared tokens that are read, ascending and the same for all models of these widths.

    More tokens make up for the noise of their rows, but cost time in proportion.
    """
    widest = max(widths)
    wanted = max(LEAST_TOKENS * widest, min(MOST_TOKENS * widest, FEW))
    if shared <= wanted:
        return np.arange(shared)
    return indices(runs(shared, wanted, SIDE_BY_SIDE, f"tokens {shared} {wanted}"))


def read_token_rows(checkpoint: Checkpoint, name: str, numbers: Numbers) -> Array:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows.

    Raise as `Checkpoint.read` does.
    """
    stored = checkpoint.rows(name)
    if stored is None:
        whole = np.asarray(checkpoint.read(name))[numbers]
        return single(whole)
    ascending, places = np.unique(numbers, return_inverse=True)
    parts = np.split(ascending, np.flatnonzero(np.diff(ascending) > 1) + 1)  # of consecutive numbers
    pieces = [stored.tensor.rows(slice(int(part[0]), int(part[-1]) + 1)) for part in parts]
    rows = single(checkpoint.read_pieces(name, pieces))
    return rows if len(rows) == len(places) and bool((np.diff(places) > 0).all()) else rows[places]
