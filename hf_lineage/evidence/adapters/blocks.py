"""Data of the adapter test: the rows that an adapter adds to a matrix, and the matrix that their gradient passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature import Array, Vector, signs

DIRECTIONS, FEWEST_DIRECTIONS = 32, 8
"""The most directions of B A that are tested, those of the largest singular values, and the fewest of many rows."""
EXACT = 256
"""Up to so many columns, a matrix of the base is used as a whole, because its Gram matrix is small."""
PROBES, FEWEST_PROBES = 128, 32
"""A wider matrix is reduced to so many random sums of its rows; a very wide one to at least so many."""
SEEN, WRITTEN = 2**18, 2**16
"""The most numbers of a wide matrix, and of what is added, that each permutation multiplies: they bound the time."""
NEGLIGIBLE = 1e-12
"""Directions whose squared singular value is less than this part of the largest are rounding, or dead rank."""


@dataclass(frozen=True)
class Block:
    """One adapted matrix, and the matrix of the base that its gradient passed through."""

    role: str
    """Role of the matrix in its layer: up, gate, value, output or down."""
    layer: int
    permuted: str
    """Kind of its rows; rows of the same kind and number get the same permutation in all blocks."""
    written: Array
    """(g, n, q): the rows of U Σ^½ in their g exchangeable groups."""
    through: Array
    """(g, k, n): the matrix of the base seen through probes, each row's mean in a group removed."""
    size: float = 0.0
    """The size of the added numbers relative to those of the base (root mean squares)."""
    flips: bool = False
    """Whether a row may change its sign, together with what reads it."""

    @property
    def centred(self) -> Array:
        """(g, n, q): the rows, each column's mean in a group removed."""
        centred: Array = self.written - self.written.mean(axis=1, keepdims=True)
        return centred

    @property
    def energies(self) -> Vector:
        """(n,): how much is added to each row, in all groups together, over their mean."""
        energies: Vector = np.square(self.written, dtype=np.float64).sum(axis=(0, 2))
        return energies / (energies.mean() or 1.0)

    @property
    def directions(self) -> float:
        """The effective number of directions, 1 / Σ p² with p the part of each in the sum of singular values."""
        parts = np.sum(np.square(self.centred, dtype=np.float64), axis=(0, 1))
        return float(parts.sum() ** 2 / np.square(parts).sum()) if parts.any() else 0.0


def product_rows(second: Array, first: Array) -> Array:
    """Return U Σ^½ of the singular value decomposition B A = U Σ Vᵀ up to a factor, (rows, q) with q <= DIRECTIONS.

    They depend only on the product; q is 0 if it is zero. The root lets weaker directions count more than in B A
    itself, because all of them are gradients.
    """
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    rows = narrow @ _root(wide @ wide.T)
    squares, vectors = np.linalg.eigh(rows.T @ rows)
    most = max(FEWEST_DIRECTIONS, min(DIRECTIONS, WRITTEN // len(rows)))
    kept = np.argsort(squares)[::-1][:most]
    kept = kept[squares[kept] > squares.max(initial=0.0) * NEGLIGIBLE]
    largest = squares.max(initial=0.0) ** 0.25
    product: Array = (rows @ (vectors[:, kept] / squares[kept] ** 0.25) / (largest or 1.0)).astype(np.float32)
    return product


def _root(gram: Vector) -> Vector:
    """Return matrices R with R Rᵀ the Gram matrices (..., r, r)."""
    values, vectors = np.linalg.eigh(gram)
    root: Vector = vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :]
    return root


def compressed(parts: Iterable[tuple[Array, float]], purpose: str) -> Array:
    """Return (g, k, n) with the Gram matrices of some parts (g, rows, n), each times its weight, one above the other.

    They are exact for up to EXACT columns; otherwise they come from random sums of the rows, chosen by the purpose.
    """
    gram: Vector = np.zeros(())
    sums: NDArray[Any] = np.zeros((), np.float32)
    for number, (part, weight) in enumerate(parts):
        rows, columns = part.shape[1:]
        if columns <= EXACT:
            gram = gram + weight**2 * (part.mT @ part)
        else:
            probes = max(FEWEST_PROBES, min(PROBES, SEEN // columns))
            drawn = signs(f"adapter probes {purpose} {number} {rows}", (probes, rows))
            sums = sums + drawn * np.float32(weight / np.sqrt(probes)) @ part
    return _root(gram).mT.astype(np.float32) if gram.ndim else sums


def block(
    role: str, layer: int, permuted: str, written: Array, through: Array, size: float = 0.0, flips: bool = False
) -> Block:
    """Return a block from the rows of a product (g, n, q) and the columns of P that belong to them (g, k, n)."""
    return Block(role, layer, permuted, written, through - through.mean(axis=2, keepdims=True), size, flips)
