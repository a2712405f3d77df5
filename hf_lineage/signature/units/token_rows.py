"""Token rows: the rows of the embedding that belong to the tokens which two models share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint import Checkpoint, single
from hf_lineage.signature.extraction import runs
from hf_lineage.signature.recipe import Array

Numbers = NDArray[np.int64]
LEAST_TOKENS, MOST_TOKENS, SIDE_BY_SIDE = 2, 4, 64
"""Tokens for every coordinate of the wider stream: at least and, if few, at most; rows are read SIDE_BY_SIDE."""
FEW = 4096
"""Up to so many tokens are few."""


def drawn_tokens(shared: int, widths: Sequence[int]) -> Numbers:
    """Return the numbers of the shared tokens that are read, ascending and the same for all models of these widths.

    More tokens make up for the noise of their rows, but cost time in proportion.
    """
    widest = max(widths)
    wanted = max(LEAST_TOKENS * widest, min(MOST_TOKENS * widest, FEW))
    if shared <= wanted:
        return np.arange(shared)
    parts = runs(shared, wanted, SIDE_BY_SIDE, f"tokens {shared} {wanted}")
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def read_token_rows(checkpoint: Checkpoint, name: str, numbers: Numbers) -> Array:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows.

    Raise as `Checkpoint.read` does.
    """
    stored = checkpoint.rows(name)
    if stored is None:
        whole = np.asarray(checkpoint.read(name))[numbers]
        return single(whole)
    ascending, places = np.unique(numbers, return_inverse=True)
    pieces = [stored.tensor.rows(run) for run in _consecutive(ascending)]
    rows = single(checkpoint.read_pieces(name, pieces))
    return rows if len(rows) == len(places) and bool((np.diff(places) > 0).all()) else rows[places]


def _consecutive(numbers: Numbers) -> Iterator[slice]:
    """Yield ascending numbers as slices."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    for run in np.split(numbers, breaks):
        yield slice(int(run[0]), int(run[-1]) + 1)
