"""Symmetry: permutations and sign flips of residual coordinates, and strata of rows within which a test permutes.

Both leave the distribution of independently trained models as it is; see `permutation` for why, and under which
assumption. Blocks are compared without the means of their rows and columns, which LayerNorm removes, and without their
share along the identity: no permutation moves these. A flip moves the means, so it is applied before they are removed.

Publishers leave rows in the order of their sizes: tools that prune sort by them. Two independent models then have
similar sizes in the same places, and all permutations together would show a relation. Within a stratum they do not.
Permuting within strata is a part of permuting everything, so it is exact wherever that is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.comparison import assign, gate
from hf_lineage.signature.recipe import Array, Vector, random_stream
from hf_lineage.signature.values import PathSignature

BATCHES = (32, 128)
"""Elements drawn at first, and at most at a time. Each batch is as large as all before it together, for most sequences
of independent models end after some forty."""
EPSILON = np.float32(1e-7)
"""A block whose means and identity make up all but this share of its square has nothing else to compare."""
TILES = {"permutations": 16, "signs": BATCHES[1]}
"""Elements of each half whose scores a thread computes at a time."""
SMALL = 2**15
"""Numbers of A's blocks below which a tile takes no longer than handing it to a thread."""
GATHERED = 2**17
"""Numbers that a thread gathers at a time: as many as the processor's cache holds."""
Cosines = Callable[[NDArray[np.int64]], Array]
"""From n elements (n, m) to the cosines of A's layers and B's moved ones, (n, L, M), or (n, L) of layers by number."""


def _under_permutations(own: Array, fixed: Array, by_number: bool) -> Cosines:
    """Gather B's blocks anew for every permutation, which leaves their means and their norms as they are.

    Layers come last, so that a permutation moves whole rows, one for each pair of coordinates. Products are small
    enough for BLAS to stay on the calling thread. Each is summed in the same order whatever else is in the batch:
    a permutation that changes nothing gives the observed score to the last bit.
    """
    size, both = own.shape[1], (own, _units(_centred(fixed)))
    # Zeros fill rows up to whole 16 bytes, four numbers, which NumPy gathers several times faster.
    ours, theirs = (np.pad(one, ((0, -len(one) % 4), (0, 0), (0, 0))).reshape(-1, size**2) for one in both)
    by_place, rows = ours.T.copy(), theirs.T.copy()
    step = max(1, GATHERED // (len(theirs) * max(TILES["permutations"], len(ours))))

    def cosines(orders: NDArray[np.int64]) -> Array:
        places = (orders[:, :, None] * size + orders[:, None, :]).reshape(len(orders), -1)
        scratch = np.empty(len(orders) * step * len(theirs), np.float32)
        found = np.zeros((len(orders), *([] if by_number else [len(ours)]), len(theirs)), np.float32)
        for start in range(0, size**2, step):
            some, part = places[:, start : start + step], slice(start, start + step)
            out = scratch[: some.size * len(theirs)].reshape(*some.shape, -1)
            blocks = rows.take(some, axis=0, out=out, mode="clip")  # unlike other modes this one writes in place
            found += np.einsum("nkl,kl->nl", blocks, by_place[part]) if by_number else ours[:, part] @ blocks
        return found[:, : len(own)] if by_number else found[:, : len(own), : len(fixed)]

    return cosines


def _under_signs(own: Array, fixed: Array, by_number: bool) -> Cosines:
    """Evaluate quadratic forms of the signs s, which give all that a flip changes.

    The inner product with A, which is centred, is sᵀ(A ∘ B)s. The squared norm of B is taken without its means and its
    share along the identity: ‖B‖² - sᵀ(BᵀB + BBᵀ)s / m + (sᵀBs / m)² - (tr B - sᵀBs / m)² / (m - 1). Sums are made in
    double precision and then rounded, so that a flip that changes nothing gives the observed score to the last bit.
    """
    ours, theirs = own.astype(np.float64), fixed.astype(np.float64)
    size, turned = theirs.shape[1], theirs.transpose(0, 2, 1)
    squares, traces = np.einsum("lij,lij->l", theirs, theirs), np.einsum("lii->l", theirs)
    means = turned @ theirs + theirs @ turned

    def cosines(signs: NDArray[np.int64]) -> Array:
        rows = signs.astype(np.float64)

        def quadratic(forms: Vector) -> Vector:
            return np.asarray(np.einsum("fnj,nj->nf", rows @ forms, rows))

        along = quadratic(theirs) / size
        left = squares - quadratic(means) / size + along**2 - (traces - along) ** 2 / max(size - 1, 1)
        norms = np.sqrt(np.maximum(left, EPSILON * squares))
        if by_number:
            return _over(quadratic(ours * theirs), norms)
        return np.stack([_over(quadratic(one * theirs), norms) for one in ours], axis=1)

    return cosines


def _over(inner: Vector, norms: Vector) -> Array:
    return np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0).astype(np.float32)


HALVES = {"permutations": _under_permutations, "signs": _under_signs}
"""The halves of the group, by the purpose of their random numbers, and what moves B's blocks by their elements.

From A's blocks (L, m, m), centred and of norm 1, and B's (M, m, m), and whether layers are paired by number."""


def scores(half: str, a: PathSignature, b: PathSignature, count: int, seed: int) -> Iterator[Vector]:
    """Yield the observed score, and then, in pieces, that under each element of one half in the order of drawing."""
    cosines, tile = HALVES[half](_units(_centred(a.corner)), b.corner, a.by_number), TILES[half]
    gates, alike = gate(a, b), a.alike(b)

    def of_tile(drawn: NDArray[np.int64]) -> Vector:
        paired = cosines(drawn)
        if not a.by_number:
            similarities = paired * alike
            rows, columns = np.array([assign(one) for one in similarities * gates]).swapaxes(0, 1)
            paired = similarities[np.arange(len(drawn))[:, None], rows, columns]
        return paired.mean(axis=1).astype(np.float64)

    for drawn in elements(half, a.corner.shape[1], count, seed):
        tiles = (drawn[start : start + tile] for start in range(0, len(drawn), tile))
        if a.corner.size < SMALL:
            yield from map(of_tile, tiles)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                yield np.concatenate([*pool.map(of_tile, tiles)])


def _centred(blocks: Array) -> Array:
    """Return blocks (L, m, m) less the means of their rows and columns, then less their share along the identity."""
    centred = blocks - blocks.mean(axis=1, keepdims=True)
    centred -= centred.mean(axis=2, keepdims=True)
    size = blocks.shape[1]
    share = np.einsum("lii->l", centred) / max(size - 1, 1)
    centred -= share[:, None, None] * (np.eye(size, dtype=np.float32) - np.float32(1 / size))
    squares, left = (np.einsum("lij,lij->l", one, one) for one in (blocks, centred))
    kept: Array = np.where((left > EPSILON * squares)[:, None, None], centred, np.float32(0))  # else it is rounding
    return kept


def _units(blocks: Array) -> Array:
    """Return every block (L, m, m) over its Frobenius norm; a zero block stays zero."""
    norms = np.linalg.norm(blocks, axis=(1, 2), keepdims=True)
    return np.asarray(np.divide(blocks, norms, out=np.zeros_like(blocks), where=norms > 0))


def elements(half: str, size: int, count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the neutral element and then `count` drawn ones of one half, (n, size) with n by BATCHES.

    They are made from raw random words, so that one seed gives the same ones on every platform.
    """
    flips = half == "signs"
    yield np.ones((1, size), np.int64) if flips else np.arange(size)[None]
    stream, each = random_stream(f"{half} {seed}"), -(-size // 64) if flips else size
    (first, most), drawn = BATCHES, 0
    while drawn < count:
        batch = min(max(first, drawn), most, count - drawn)
        words = stream.random_raw(batch * each).reshape(-1, each)
        if flips:
            bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
            yield bits[:, :size].astype(np.int64) * 2 - 1
        else:
            yield np.argsort(words, axis=1, kind="stable")
        drawn += batch


LEAST, RATIO = 2, 1.1
"""A stratum has at least so many rows, and none is divided whose sizes differ by less than this ratio.

Measured on units that lean on common directions the more the larger they are, both models sorted by size: strata of 8
rows leave 6 to 30 % of independent pairs at p <= .01; strata of 4 leave up to 8 %, those of 2 or 3 one. Strata of m
rows leave √((m - 1) / m) of z, and rows of one size need no strata.
"""
Numbers = NDArray[np.int64]


def strata_of(sizes: Vector) -> list[Numbers]:
    """Return sets of rows that are alike in each of some sizes, given as (kinds, rows).

    They are halved at the median of the size that differs most, in the ratio of its extremes. Rows of one size stay
    together, so that the strata are the same after any permutation within them: the test is exact.
    """
    positive = np.where(sizes > 0, sizes, 1.0)
    logarithms = np.where(sizes > 0, np.log(positive), np.log(positive).min(initial=0.0) - 1.0)
    done, waiting = list[Numbers](), [np.arange(sizes.shape[1])]
    while waiting:
        some = waiting.pop()
        mine = logarithms[:, some]
        widest = mine[np.ptp(mine, axis=1).argmax()]
        low = widest < np.median(widest)
        if len(some) < 2 * LEAST or not low.any() or np.ptp(widest) < np.log(RATIO):
            done.append(some)
        else:
            waiting += [some[low], some[~low]]
    return done


def orders_within(sets: Sequence[Numbers], count: int, stream: np.random.Philox) -> Numbers:
    """Return so many permutations (count, rows) within some sets of rows, drawn from raw random words."""
    size = sum(map(len, sets))
    words = stream.random_raw(count * size).reshape(count, size)
    orders = np.empty((count, size), np.int64)
    for length in {len(some) for some in sets}:
        alike = np.stack([some for some in sets if len(some) == length])
        orders[:, alike] = np.take_along_axis(alike[None], np.argsort(words[:, alike], axis=2, kind="stable"), axis=2)
    return orders
