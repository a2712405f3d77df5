"""Token frame: coordinates that two models share although their residual streams do not, by the rows of their tokens.

An orthogonal change Q of the residual coordinates turns the rows X (K, d) of K tokens into X Qᵀ, and what a unit reads
or writes, w, into Q w. With the polar factor U = X (XᵀX)^(-1/2), the product U w stays as it is. It has K coordinates
whatever the width, so that it is also the same for a model of another width with a stream that means the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint import Checkpoint
from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.computing import WhiteningMatrix, compute_whitening
from hf_lineage.signature.extraction import runs
from hf_lineage.signature.recipe import Array, Vector, signs

Numbers = NDArray[np.int64]
FEWEST_TOKENS, MOST_TOKENS, SIDE_BY_SIDE = 2048, 8192, 64
"""Tokens are read in runs of SIDE_BY_SIDE rows, twice as many as the wider stream has coordinates, between these."""
SEEN = 256
"""Coordinates in which units are seen; of wider streams random sums."""
LEAST = 1e-4
"""A direction in which rows of tokens vary less, relative to the largest, is rounding and is left out."""
SPANNED = 0.5
"""Rows of tokens have to span this share of the narrower stream: in fewer directions most of a unit is not seen."""


@dataclass(frozen=True)
class Polar:
    """U = X (XᵀX)^(-1/2) of the rows X of K tokens: orthonormal columns in the directions that these rows span."""

    rows: Vector
    """(K, d): X, its largest number 1."""
    root: WhiteningMatrix
    """(XᵀX)^(-1/2)"""


def drawn_tokens(shared: int, widths: Sequence[int]) -> NDArray[np.int64]:
    """Return which of so many shared tokens are read, the same ones for models of these widths, ascending."""
    wanted = min(max(2 * max(widths), FEWEST_TOKENS), MOST_TOKENS)
    if shared <= wanted:
        return np.arange(shared)
    parts = runs(shared, wanted, SIDE_BY_SIDE, f"tokens {shared} {wanted}")
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def token_rows(checkpoint: Checkpoint, name: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows.

    Raise as `Checkpoint.read` does.
    """
    stored = checkpoint.rows(name)
    if stored is None:
        whole: NDArray[np.float64] = np.asarray(checkpoint.read(name))[numbers].astype(np.float64)
        return whole
    ascending, places = np.unique(numbers, return_inverse=True)
    pieces = [stored.tensor.rows(run) for run in _consecutive(ascending)]
    rows: NDArray[np.float64] = checkpoint.read_pieces(name, pieces)[places].astype(np.float64)
    return rows


def _consecutive(numbers: NDArray[np.int64]) -> Iterator[slice]:
    """Ascending numbers as slices."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    for run in np.split(numbers, breaks):
        yield slice(int(run[0]), int(run[-1]) + 1)


def polar(rows: NDArray[np.float64], narrower: int) -> Polar:
    """Return the polar factor of the rows of some tokens.

    Raise NothingToCompare where they span too few directions, given the width of the narrower stream of the two.
    """
    largest = float(np.abs(rows).max(initial=0.0))
    if not np.isfinite(rows).all() or largest == 0:
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    scaled = rows / largest
    root = compute_whitening(scaled.T @ scaled, LEAST)
    if root.rank < SPANNED * narrower:
        raise NothingToCompare(
            f"the rows of {len(rows)} tokens span only {root.rank} of the {rows.shape[1]} directions of its stream"
        )
    return Polar(scaled, root)


def between(base: Polar, candidate: Polar) -> tuple[Array, Array]:
    """Return what the units of the base and of the candidate are multiplied with, (s, d) each.

    ⟨U_A a, U_B b⟩ = ⟨a, U_Aᵀ U_B b⟩, so that rows of the candidate are turned into coordinates of the base.
    """
    seen = seen_through(base.rows.shape[1])
    through = candidate.rows.T @ (base.rows @ base.root.times(seen.T.astype(np.float64)))
    return seen, candidate.root.times(through).T.astype(np.float32)


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))
