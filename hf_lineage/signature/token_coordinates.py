"""Token coordinates: a linear map between two residual streams, from the rows of the tokens that both models share.

A hidden unit with the direction b, in a stream where K tokens have the rows Y (K, d'), is a function of tokens: Y b. In
a wider stream with the rows X (K, d), least squares give nearly the same function: (XᵀX + λ)⁻¹ Xᵀ Y b with
λ = ε tr(XᵀX) / d, brought to length 1 again. Neither an orthogonal change of coordinates nor another order of units
changes anything in it. The ridge ε is chosen by generalised cross-validation (Golub, Heath and Wahba 1979).
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
SPANNED = 0.5  # the share of the narrower stream that rows of tokens have to span: fewer do not show most of a unit


def prepare_rows(rows: Array) -> None:
    """Bring the rows (K, d) of the tokens of a stream to length 1 and take their mean away, in place.

    Else a few rows of unused tokens that were enlarged would decide the fit, and models that learned apart have a mean
    in common. Raise NothingToCompare where they are not finite.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))[:, None]
    if not np.isfinite(largest).all() or not largest.any():
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    np.divide(rows, largest, out=rows, where=largest > 0)
    lengths = np.sqrt(np.vecdot(rows, rows))[:, None]
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    rows -= rows.mean(axis=0)


def check_span(rows: Array, narrower: int) -> None:
    """Raise NothingToCompare where prepared rows (K, d) span too few directions of the narrower stream of the two."""
    wanted = SPANNED * narrower
    few = round(1.5 * wanted)  # more rows span no fewer directions, so some of the rows are tried first
    if few < min(rows.shape) and Ridges(rows[:: len(rows) // few][:few].T).span >= wanted:
        return
    _enough(Ridges(rows).span, rows, narrower)


def _enough(spanned: float, rows: Array, narrower: int) -> None:
    if spanned < SPANNED * narrower:
        span = f"the rows of {len(rows)} tokens span only about {spanned:.0f}"
        raise NothingToCompare(f"{span} of the {rows.shape[1]} directions of its stream")


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
        if not self._mean > 1e-9:  # they are all the same
            return 0.0
        self.factor(RIDGES[0])
        return self.freedom


def fit_tokens(wide: Array, narrow: Array) -> tuple[Array, Array]:
    """Return what brings units of both streams to shared coordinates, by prepared rows of the same tokens."""
    ridges, through = Ridges(wide), seen_through(wide.shape[1])
    freedom = ridges.span
    _enough(freedom, wide, narrow.shape[1])
    sums = narrow @ signs("sums of a token fit", (narrow.shape[1], ASKED))
    columns, fits = np.hstack((through.T, wide.T @ sums)), list[tuple[float, Array]]()
    for ridge in RIDGES:
        if ridge != RIDGES[0]:
            ridges.factor(ridge)
            freedom = ridges.freedom
        solved, coefficients = np.hsplit(ridges.solve(columns), (len(through),))
        # The error with which the wider rows give sums of the narrower ones, corrected for the directions of the fit.
        error, free = np.square(sums - wide @ coefficients, dtype=np.float64).mean(), 1 - freedom / len(sums)
        fits.append((float(error) / max(free, 1e-6) ** 2, solved))
    _, solved = min(fits, key=itemgetter(0))
    return through, ((wide @ solved).T @ narrow).astype(np.float32, copy=False)


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))


Numbers = NDArray[np.int64]


def drawn_tokens(shared: int, widths: Sequence[int]) -> Numbers:
    """Return the shared tokens that are read, ascending: more make up for the noise of their rows, but cost time."""
    widest = max(widths)
    wanted = max(2 * widest, min(4 * widest, 4096))
    if shared <= wanted:
        return np.arange(shared)
    return indices(runs(shared, wanted, 64, f"tokens {shared} {wanted}"))


def read_token_rows(checkpoint: Checkpoint, name: str, numbers: Numbers) -> Array:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows."""
    stored = checkpoint.rows(name)
    if stored is None:
        whole = np.asarray(checkpoint.read(name))[numbers]
        return single(whole)
    ascending, places = np.unique(numbers, return_inverse=True)
    parts = np.split(ascending, np.flatnonzero(np.diff(ascending) > 1) + 1)  # of consecutive numbers
    pieces = [stored.tensor.rows(slice(int(part[0]), int(part[-1]) + 1)) for part in parts]
    rows = single(checkpoint.read_pieces(name, pieces))
    return rows if len(rows) == len(places) and bool((np.diff(places) > 0).all()) else rows[places]
