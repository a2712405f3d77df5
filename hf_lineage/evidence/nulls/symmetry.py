"""Symmetry: permutations and sign flips of residual coordinates, and the score of two models under each of them.

Both leave the distribution of independently trained models as it is; see `permutation` for why, and under which
assumption. Blocks are compared without the means of their rows and columns, which LayerNorm removes, and without their
share along the identity: no permutation moves these. A flip moves the means, so it is applied before they are removed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.paths import assign, gate
from hf_lineage.signature import Array, PathSignature, Vector, random_stream

BATCHES = (32, 128)
"""Elements drawn at first, and at most at a time. Each batch is as large as all before it together, for most sequences
of independent models end after some forty."""
TILE = 16
"""Permutations whose scores a thread computes at a time."""
EPSILON = np.float32(1e-7)
"""A block whose means and identity make up all but this share of its square has nothing else to compare."""
GATHERED = 2**18
"""Numbers that a thread gathers at a time: as many as the processor's cache holds."""


class Half(NamedTuple):
    """One half of the group: how its elements are drawn, and how they move B's blocks."""

    words: Callable[[int], int]
    """From m to the random words of an element."""
    element: Callable[[NDArray[np.uint64], int], NDArray[np.int64]]
    """From words (n, words) and m to n elements, (n, m)."""
    neutral: Callable[[int], NDArray[np.int64]]
    """From m to the element that changes nothing, (m,)."""
    move: Callable[[Array, slice, NDArray[np.int64]], Array]
    """From blocks (m, m, M), some rows and n elements to these rows of the moved blocks, (n, rows, m, M)."""
    fixes_means: bool
    """Whether the means of rows and columns stay what they are."""


def _permuted(blocks: Array, rows: slice, orders: NDArray[np.int64]) -> Array:
    size = orders.shape[1]
    places = orders[:, rows, None] * size + orders[:, None, :]
    permuted: Array = blocks.reshape(size * size, -1).take(places, axis=0)
    return permuted


def _flipped(blocks: Array, rows: slice, signs: NDArray[np.int64]) -> Array:
    size, _, layers = blocks.shape
    columns = np.repeat(signs.astype(np.float32), layers, axis=1)  # long rows, which numpy multiplies faster
    flipped: Array = columns[:, None, :] * columns[:, ::layers][:, rows, None]
    flipped *= blocks[rows].reshape(-1, size * layers)
    return flipped.reshape(len(signs), -1, size, layers)


def _signs(words: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:, :size].astype(np.int64) * 2 - 1


HALVES = {
    "permutations": Half(
        words=lambda size: size,
        element=lambda words, _size: np.argsort(words, axis=1, kind="stable"),
        neutral=np.arange,
        move=_permuted,
        fixes_means=True,
    ),
    "signs": Half(
        words=lambda size: -(-size // 64),
        element=_signs,
        neutral=lambda size: np.ones(size, np.int64),
        move=_flipped,
        fixes_means=False,
    ),
}
"""By the purpose of their random numbers."""


def scores(half: str, a: PathSignature, b: PathSignature, count: int, seed: int) -> Generator[float]:
    """Yield the observed score, and then the score under each element of one half in the order of drawing."""
    moves, size, fixed = HALVES[half], a.corner.shape[1], b.corner
    own, fixed = _units(_centred(a.corner)), _units(_centred(fixed) if moves.fixes_means else fixed)
    other = _Moved.prepare(moves, fixed)
    if a.by_number:
        of_tile = functools.partial(_by_number, np.ascontiguousarray(own.transpose(1, 2, 0)), other)
    else:
        of_tile = functools.partial(_assigned, own.transpose(1, 0, 2), other, gate(a, b), a.alike(b))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for drawn in elements(half, size, count, seed):
            tiles = (drawn[start : start + TILE] for start in range(0, len(drawn), TILE))
            for tile in pool.map(of_tile, tiles):
                yield from tile


def _centred(blocks: Array) -> Array:
    """Blocks (L, m, m) less the means of their rows and columns, and then less their share along the identity."""
    centred = blocks - blocks.mean(axis=1, keepdims=True)
    centred -= centred.mean(axis=2, keepdims=True)
    size = blocks.shape[1]
    share = np.einsum("lii->l", centred) / max(size - 1, 1)
    centred -= share[:, None, None] * (np.eye(size, dtype=np.float32) - np.float32(1 / size))
    squares, left = (np.einsum("lij,lij->l", one, one) for one in (blocks, centred))
    kept: Array = np.where((left > EPSILON * squares)[:, None, None], centred, np.float32(0))  # else it is rounding
    return kept


def _units(blocks: Array) -> Array:
    """Every block (L, m, m) over its Frobenius norm; a zero block stays zero."""
    norms = np.linalg.norm(blocks, axis=(1, 2), keepdims=True)
    units: Array = np.divide(blocks, norms, out=np.zeros_like(blocks), where=norms > 0)
    return units


class _Moved(NamedTuple):
    """B's blocks, (m, m, M) of norm 1, and how elements of a half move them."""

    half: Half
    blocks: Array
    """Layers come last: a permutation then moves whole rows, one for each pair of coordinates."""
    axes: tuple[Array, Array]
    """The blocks as (m, m M), rows first and columns first: the sums over one axis are a product with a vector."""

    @classmethod
    def prepare(cls, half: Half, blocks: Array) -> _Moved:
        """Lay out blocks (M, m, m)."""
        by_row, by_column = (np.ascontiguousarray(blocks.transpose(*axes)) for axes in ((1, 2, 0), (2, 1, 0)))
        return cls(half, by_row, (by_row.reshape(len(by_row), -1), by_column.reshape(len(by_row), -1)))

    def pieces(self, elements: NDArray[np.int64]) -> Iterator[tuple[slice, Array]]:
        """Yield some rows at a time, and the blocks there as each of n elements moves them, (n, rows, m, M)."""
        size, _, layers = self.blocks.shape
        rows = max(1, GATHERED // (TILE * size * layers))
        for start in range(0, size, rows):
            part = slice(start, start + rows)
            yield part, self.half.move(self.blocks, part, elements)

    def sizes(self, elements: NDArray[np.int64]) -> Array:
        """Return the norms (n, M) of the moved blocks without their means and their share along the identity."""
        size, _, layers = self.blocks.shape
        if self.half.fixes_means:
            return np.ones((len(elements), layers), np.float32)
        whole, trace = np.sum(self.blocks**2, axis=(0, 1)), np.einsum("iil->l", self.blocks)
        # One element at a time: a product with several may sum in another order, and ties would be lost.
        flat = np.array([[signs @ one for one in self.axes] for signs in elements.astype(np.float32)])
        sums = flat.reshape(len(elements), 2, size, layers)
        total = np.einsum("nm,nml->nl", elements.astype(np.float32), sums[:, 0])
        left = whole - np.einsum("nsml,nsml->nl", sums, sums) / size + (total / size) ** 2
        left -= (trace - total / size) ** 2 / max(size - 1, 1)
        sizes: Array = np.sqrt(np.maximum(left, EPSILON * whole))
        return sizes


def _by_number(a_units: Array, moved: _Moved, elements: NDArray[np.int64]) -> list[float]:
    """The score for n elements (n, m) where every layer is compared with that of the same number alone.

    A's blocks come as (m, m, L). Each sum is made in the same order whatever else is in the batch.
    """
    sums = np.zeros((len(elements), a_units.shape[2]), dtype=np.float32)
    for part, blocks in moved.pieces(elements):
        sums += np.einsum("nrml,rml->nl", blocks, a_units[part])
    return [float(score) for score in _over(sums, moved.sizes(elements)).mean(axis=1)]


def _assigned(
    a_units: Array, moved: _Moved, gates: Vector, alike: NDArray[np.bool_], elements: NDArray[np.int64]
) -> list[float]:
    """The score for n elements (n, m) where layers are assigned to each other anew under each."""
    similarities = _similarities(a_units, moved, elements) * alike
    return [float(similarity[assign(similarity * gates)].mean()) for similarity in similarities]


def _similarities(a_units: Array, moved: _Moved, elements: NDArray[np.int64]) -> Array:
    """The cosines of A's blocks and B's as n elements (n, m) move them, as (n, L, M); A's come as (m, L, m).

    Each product is small enough for BLAS to stay on the calling thread, and each is summed in the same order whatever
    else is in the batch, so that an element that changes nothing gives the observed score to the last bit.
    """
    similarities = np.zeros((len(elements), a_units.shape[1], moved.blocks.shape[2]), dtype=np.float32)
    for part, blocks in moved.pieces(elements):
        similarities += (a_units[part] @ blocks).sum(axis=1)
    return _over(similarities, moved.sizes(elements)[:, None, :])


def _over(values: Array, sizes: Array) -> Array:
    quotients: Array = np.divide(values, sizes, out=np.zeros_like(values), where=sizes > 0)
    return quotients


def elements(half: str, size: int, count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the neutral element and then `count` drawn ones of one half, (n, size) with n by BATCHES.

    They are made from raw random words, so that one seed gives the same ones on every platform.
    """
    yield HALVES[half].neutral(size)[None]
    stream, words = random_stream(f"{half} {seed}"), HALVES[half].words(size)
    (first, most), drawn = BATCHES, 0
    while drawn < count:
        batch = min(max(first, drawn), most, count - drawn)
        yield HALVES[half].element(stream.random_raw(batch * words).reshape(-1, words), size)
        drawn += batch
