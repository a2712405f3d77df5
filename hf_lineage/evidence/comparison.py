"""Comparison: similarity matrix, gate, assignment, score and alignment of two models along one path.

The score pairs layers one to one (equation 5), which leaves copies of a repeated layer without a partner, or with a
wrong one. The alignment says where every layer of the candidate comes from.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.devices import linear_algebra
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.values import Columns, PathSignature

JUMP = 0.1  # least excess of another layer over the base's next one: more than chance, and less than descendants keep
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]  # (n,) each: rows of one model, and the row of the other for each
Products = tuple[Vector, Vector, Vector]  # ⟨φ_i^A, φ_j^B⟩ (L, M); squared norms of columns of A (L, k) and B (M, k)


def in_order(similarity: Vector) -> NDArray[np.int64]:
    """Return for each layer of the candidate (M,) a layer of the base, from similarities (L, M), mostly in order."""
    # It maximises the sum of similarities less JUMP wherever the base's layer is not the one after that of the layer
    # before (Viterbi 1967). Layers that the base itself repeats are alike to the last digit: only the order tells them.
    layers, others = similarity.shape
    best, came_from = similarity[:, 0], np.zeros((others, layers), dtype=np.int64)
    for number in range(1, others):
        jump = int(best.argmax())
        follows = np.concatenate([[-np.inf], best[:-1]])
        follow = follows >= best[jump] - JUMP
        came_from[number] = np.where(follow, np.arange(layers) - 1, jump)
        best = np.where(follow, follows, best[jump] - JUMP) + similarity[:, number]
    partners = np.zeros(others, dtype=np.int64)
    partners[-1] = best.argmax()
    for number in range(others - 1, 0, -1):
        partners[number - 1] = came_from[number, partners[number]]
    return partners


def runs(origins: Mapping[int, int]) -> Iterator[str]:
    """Yield in words the runs of a map from layers of a candidate to layers of a base, both by number.

    >>> list(runs({0: 0, 1: 1, 2: 4, 3: 5, 7: 6}))
    ['layers 0-1 from layers 0-1', 'layers 2-3 from layers 4-5', 'layer 7 from layer 6']
    """
    numbers = sorted(origins)
    starts = [number for number in numbers if origins.get(number - 1, -2) != origins[number] - 1]
    for start, end in zip(starts, [*starts[1:], np.inf], strict=False):
        length = sum(start <= number < end for number in numbers)
        ends = ((first, first + length - 1) for first in (start, origins[start]))
        yield " from ".join(f"layer {a}" if a == b else f"layers {a}-{b}" for a, b in ends)


@dataclass(frozen=True)
class Comparison:
    """Two models along one path: L layers of A against M layers of B, of which n = min(L, M) are paired."""

    similarity: Vector  # (L, M): ⟨φ_i^A, φ_j^B⟩, 0 where a layer is not usable or the two are of unlike widths
    pairs: Pairs  # (n,) each: the layers of A, in order, and the layer of B that each is paired with (equation 5)
    usable: NDArray[np.bool_]  # (n,): whether both layers of a pair are finite and not zero
    concentration: tuple[Vector, Vector]  # s(M) of A's layers (L,) and of B's (M,)
    # The standard error of the score with these pairs, from the scatter of probes; 0 for an exact or identical pair.
    # The assignment of unrelated layers also picks the largest errors: the score is then too large, by about two
    # standard errors at 6 layers and five at 24. The p-value does not depend on it.
    standard_error: float

    @property
    def by_layer(self) -> Vector:
        """(n,): the ungated cosine of every pair."""
        return np.asarray(self.similarity[self.pairs])

    @property
    def score(self) -> float:
        """The lineage score 𝓛 in [-1, 1] (equation 6)."""
        return float(self.by_layer.mean())


def compare_paths(a: PathSignature, b: PathSignature) -> Comparison:
    """Return how similar two models are along one path; both must have the same recipe and width."""
    room = min(getattr(path.sketch, "room", path.sketch.shape[2]) for path in (a, b))
    inner, a_squares, b_squares = inner_products(pieces(a.sketch, room), pieces(b.sketch, room))
    norms = np.sqrt(np.outer(a_squares.sum(axis=1), b_squares.sum(axis=1)))
    cosines = np.clip(np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0), -1.0, 1.0)
    similarity = cosines * a.alike(b)
    numbers = np.arange(len(a.trace))  # a sample draws in each layer anew
    chosen, partners = pairs = (numbers, numbers) if a.by_number else assign(similarity * gate(a, b))
    if a.sampled:  # the scatter of rows and of columns together, both of which were drawn
        one, other = (np.asarray(path.sketch)[rows].astype(float) for path, rows in zip((a, b), pairs, strict=True))
        products = one * other, one * one, other * other
        error = math.hypot(*(_standard_error(*(x.sum(axis=axis) for x in products)) for axis in (1, 2)))
    elif a.sketch.shape[1] == a.sketch.shape[2]:  # exact
        error = 0.0
    else:
        one, other = (np.asarray(path.sketch) for path in (a, b))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            cross = pool.map(lambda i, j: np.einsum("dk,dk->k", one[i], other[j], dtype=np.float64), *pairs)
            error = _standard_error(np.stack([*cross]), a_squares[chosen], b_squares[partners])
    usable = a.usable[chosen] & b.usable[partners]
    return Comparison(similarity, pairs, usable, (a.concentration, b.concentration), error)


def scores(base: PathSignature, others: Iterable[PathSignature]) -> Iterator[float]:
    """Yield the lineage score of each of several models with a base, for a ranking."""
    # It is that of `compare_paths` up to the rounding of float32, and many times as fast for small models in memory.
    rows, sizes = _rows(base)
    for other in others:
        other_rows, other_sizes = _rows(other)
        norms = sizes[:, None] * other_sizes
        similarity = np.divide(rows @ other_rows.T, norms, out=np.zeros_like(norms), where=norms > 0)
        if base.widths or other.widths:
            similarity *= base.alike(other)
        yield float(similarity[assign(similarity * gate(base, other))].mean())


def _rows(path: PathSignature) -> tuple[Array, Array]:  # of every layer the sketch as one row (L, d k), and its norm
    sketch = np.asarray(path.sketch)
    rows = sketch.reshape(len(sketch), -1)
    return rows, np.sqrt(np.vecdot(rows, rows))


def pieces(sketch: Array | Columns, room: int) -> Iterator[Array]:
    """Return the columns of a sketch in pieces (L, d, b) of at most `room` columns."""
    parts = (slice(start, start + room) for start in range(0, sketch.shape[2], room))
    return (sketch[:, :, part] if isinstance(sketch, np.ndarray) else sketch.columns(part) for part in parts)


def inner_products(a: Iterable[Array], b: Iterable[Array]) -> Products:
    """Return the products of two sketches, in pieces (L, d, b) along their columns, cut at the same ones."""

    def multiply(one: Array, other: Array) -> Products:
        # Rows are cut at the same places whatever the number of threads, so that the sums are the same.
        step = max(512, -(-one.shape[1] // 8))
        parts = (slice(start, start + step) for start in range(0, one.shape[1], step))
        products = pool.map(lambda part: _row_products(one[:, part], other[:, part]), parts)
        inner, left, right = zip(*products, strict=True)
        return np.sum(inner, axis=0), np.sum(left, axis=0), np.sum(right, axis=0)

    # Threads of the linear algebra would wait for each other on a busy machine.
    with linear_algebra().limit(limits=1), ThreadPoolExecutor(os.cpu_count()) as pool:
        # map holds no piece while the next one is made: two pieces may fill the memory.
        inner, left, right = zip(*map(multiply, a, b), strict=True)
    return np.sum(inner, axis=0), np.concatenate(left, axis=1), np.concatenate(right, axis=1)


def _row_products(a: Array, b: Array) -> Products:
    """Return what some rows of a pair of pieces add: float32, summed in float64, a few of the rows at a time."""
    (layers, width, columns), others = a.shape, len(b)
    inner, left, right = np.zeros((layers, others)), np.zeros((layers, columns)), np.zeros((others, columns))
    rows = max(1, 2**17 // (max(layers, others) * columns))  # both buffers stay in the processor's cache
    # They are used for every step: allocating them anew would cost more than the sums.
    a_rows, b_rows = np.empty((layers, rows, columns)), np.empty((others, rows, columns))
    for start in range(0, width, rows):
        x, y = a_rows[:, : width - start], b_rows[:, : width - start]
        x[...], y[...] = a[:, start : start + rows], b[:, start : start + rows]
        inner += x.reshape(layers, -1) @ y.reshape(others, -1).T
        left += np.einsum("ldk,ldk->lk", x, x)
        right += np.einsum("ldk,ldk->lk", y, y)
    return inner, left, right


def gate(a: PathSignature, b: PathSignature) -> Vector:
    """Return min(s_i^A / τ, s_j^B / τ, 1) with τ the least trace concentration of A's usable layers; (L, M)."""
    s_a, s_b = a.concentration, b.concentration
    tau = float(s_a.min(where=a.usable, initial=np.inf))
    if not 0 < tau < np.inf:
        return np.ones((len(s_a), len(s_b)))
    return np.minimum(1.0, np.minimum(s_a[:, None], s_b[None, :]) / tau)


def assign(gated: Vector) -> Pairs:
    """Return the one-to-one pairings that maximise the sums of matrices (..., L, M) (equation 5): rows and columns."""
    best, rows = gated.argmax(axis=-1), np.arange(gated.shape[-2])
    ordered = np.sort(best, axis=-1)
    compete = (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1) | (len(rows) > gated.shape[-1])
    if not compete.any():  # no two rows have the same best partner, so none can do better
        return np.broadcast_to(rows, best.shape), best
    # Imported here: it takes longer than all other imports together, and most commands never need it.
    from scipy.optimize import linear_sum_assignment

    pairs = np.empty((2, *gated.shape[:-2], min(gated.shape[-2:])), dtype=np.int64)
    for place in np.ndindex(compete.shape):
        several = compete[place]
        pairs[:, *place] = linear_sum_assignment(gated[place], maximize=True) if several else (rows, best[place])
    return pairs[0], pairs[1]


def _standard_error(cross: Vector, left: Vector, right: Vector) -> float:
    """Return the error by the delta method over the k probes: each estimates the three inner products of a cosine."""
    probes = cross.shape[1]
    if probes < 2:
        return float("inf")
    left_sum, right_sum = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    live = ((left_sum > 0) & (right_sum > 0))[:, 0]
    if not live.any():
        return 0.0
    cross, left, right, left_sum, right_sum = (x[live] for x in (cross, left, right, left_sum, right_sum))
    scale = np.sqrt(left_sum * right_sum)
    cosine = cross.sum(axis=1, keepdims=True) / scale
    influence = (cross / scale - cosine / 2 * (left / left_sum + right / right_sum)).sum(axis=0) / len(live)
    return float(np.sqrt(probes / (probes - 1) * np.sum(influence**2)))
