"""Comparison: similarity matrix, gate, assignment and lineage score of two models along one path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.recipe import Array, Vector
from hf_lineage.signature import Columns, PathSignature

ALONE = 2**18
"""Multiplications that BLAS leaves to one thread: several would wait for each other wherever a core is busy."""


@dataclass(frozen=True)
class Comparison:
    """Two models along one path: L layers of A against M layers of B, of which n = min(L, M) are paired."""

    similarity: Vector
    """(L, M): ⟨φ_i^A, φ_j^B⟩, 0 where a layer is not usable or the two are of unlike widths."""
    gate: Vector
    """(L, M): min(s_i^A / τ, s_j^B / τ, 1), the paper's gated branch score."""
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]]
    """(n,) each: the layers of A, in order, and the layer of B that each is paired with (equation 5)."""
    usable: NDArray[np.bool_]
    """(n,): whether both layers of a pair are finite and not zero."""
    concentration: tuple[Vector, Vector]
    """s(M) of A's layers (L,) and of B's (M,)."""
    standard_error: float
    """Of the score with these pairs of layers, from the scatter of the probes; 0 for an exact or an identical pair.

    Where layers are unrelated the assignment also picks the errors that make them most alike: the score of a sketch is
    then too large, by about two standard errors at 6 layers and five at 24. The p-value does not rest on it.
    """

    @property
    def assignment(self) -> NDArray[np.int64]:
        """(n,): the layer of B that each paired layer of A is paired with."""
        return self.pairs[1]

    @property
    def by_layer(self) -> Vector:
        """(n,): the ungated cosine of every pair."""
        cosines: Vector = self.similarity[self.pairs]
        return cosines

    @property
    def score(self) -> float:
        """The lineage score 𝓛 in [-1, 1] (equation 6)."""
        return float(self.by_layer.mean())


def compare_paths(a: PathSignature, b: PathSignature) -> Comparison:
    """Return how similar two models are along one path; both must have the same recipe and width."""
    room = min(getattr(found.sketch, "room", found.sketch.shape[2]) for found in (a, b))
    inner, ours, theirs = inner_products(pieces(a.sketch, room), pieces(b.sketch, room))
    similarity = cosines(inner, ours.sum(axis=1), theirs.sum(axis=1)) * a.alike(b)
    gates = gate(a, b)
    chosen, partners = pairs = assign(similarity * gates)
    exact = a.sketch.shape[1] == a.sketch.shape[2]
    return Comparison(
        similarity=similarity,
        gate=gates,
        pairs=pairs,
        usable=a.usable[chosen] & b.usable[partners],
        concentration=(a.concentration, b.concentration),
        standard_error=0.0 if exact else _standard_error(_paired(a, b, pairs), ours[chosen], theirs[partners]),
    )


def pieces(sketch: Array | Columns, room: int) -> Iterator[Array]:
    """Return the columns of a sketch in pieces (L, d, b) of as many as there is room for."""
    return (_columns(sketch, slice(start, start + room)) for start in range(0, sketch.shape[2], room))


def _columns(sketch: Array | Columns, chosen: slice) -> Array:
    return sketch[:, :, chosen] if isinstance(sketch, np.ndarray) else sketch.columns(chosen)


def inner_products(ours: Iterable[Array], theirs: Iterable[Array]) -> tuple[Vector, Vector, Vector]:
    """Return ⟨φ_i^A, φ_j^B⟩, (L, M), and the squared norm of every column of A's sketch and of B's, (L, k), (M, k).

    A sketch comes in pieces (L, d, b), one after another along its columns and cut alike for both models.
    """
    # map holds on to no piece while the next is made: they may fill the memory.
    inner, left, right = zip(*map(_piece_products, ours, theirs), strict=True)
    return np.sum(inner, axis=0), np.concatenate(left, axis=1), np.concatenate(right, axis=1)


def _piece_products(ours: Array, theirs: Array) -> tuple[Vector, Vector, Vector]:
    """What one pair of pieces adds: float32, summed in float64, some rows at a time."""
    (layers, width, columns), others = ours.shape, len(theirs)
    inner, left, right = np.zeros((layers, others)), np.zeros((layers, columns)), np.zeros((others, columns))
    rows = max(1, ALONE // (layers * others * columns))
    # Used again and again: fresh memory would cost more than the sums.
    wide, also = np.empty((layers, rows, columns)), np.empty((others, rows, columns))
    for start in range(0, width, rows):
        x, y = wide[:, : width - start], also[:, : width - start]
        x[...], y[...] = ours[:, start : start + rows], theirs[:, start : start + rows]
        inner += x.reshape(layers, -1) @ y.reshape(others, -1).T
        left += np.einsum("ldk,ldk->lk", x, x)
        right += np.einsum("ldk,ldk->lk", y, y)
    return inner, left, right


def cosines(inner: Vector, ours: Vector, theirs: Vector) -> Vector:
    """Return inner products (L, M) over the norms of both blocks, squared (L,) and (M,); 0 for a zero block."""
    norms = np.sqrt(np.outer(ours, theirs))
    return np.clip(np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0), -1.0, 1.0)


def gate(a: PathSignature, b: PathSignature) -> Vector:
    """Return min(s_i^A / τ, s_j^B / τ, 1) with τ the least trace concentration of A's usable layers; (L, M)."""
    ours, theirs = a.concentration, b.concentration
    floor = float(ours.min(where=a.usable, initial=np.inf))
    if not 0 < floor < np.inf:
        return np.ones((len(ours), len(theirs)))
    return np.minimum(1.0, np.minimum(ours[:, None], theirs[None, :]) / floor)


def assign(gated: Vector) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the one-to-one pairing that maximises the sum of a (L, M) matrix (equation 5): rows and columns."""
    # Imported here: it takes longer than all other imports together, and most commands never get so far.
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(gated, maximize=True)
    return np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)


def _paired(a: PathSignature, b: PathSignature, pairs: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Vector:
    """The inner product of every column of A's sketch with that of its partner, (n, k)."""
    ours, theirs = (_columns(found.sketch, slice(None)) for found in (a, b))
    products = (np.einsum("dk,dk->k", ours[i], theirs[j], dtype=np.float64) for i, j in zip(*pairs, strict=True))
    return np.stack(list(products))


def _standard_error(cross: Vector, left: Vector, right: Vector) -> float:
    """Delta method over the k probes, each of which gives one estimate of the three inner products behind a cosine."""
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
