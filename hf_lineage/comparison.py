"""Comparison: similarity matrix, gate, assignment and lineage score of two models along one path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hf_lineage.signature import Array, PathSignature, Vector

PIECE = 8192
"""Columns of a block that are summed at a time."""


@dataclass(frozen=True)
class Comparison:
    """Two models along one path: L layers of A against L layers of B."""

    similarity: Vector
    """(L, L): ⟨φ_i^A, φ_j^B⟩, 0 where a layer is not usable."""
    gate: Vector
    """(L, L): min(s_i^A / τ, s_j^B / τ, 1), the paper's gated branch score."""
    assignment: NDArray[np.int64]
    """(L,): the layer of B that each layer of A is paired with (equation 5)."""
    usable: NDArray[np.bool_]
    """(L,): whether both layers of a pair are finite and not zero."""
    concentration: tuple[Vector, Vector]
    """s(M) of A's layers and of B's, (L,) each."""
    standard_error: float
    """Of the score, from the scatter of the probes; 0 for an exact or an identical pair."""

    @property
    def by_layer(self) -> Vector:
        """(L,): the ungated cosine of every assigned pair."""
        return np.take_along_axis(self.similarity, self.assignment[:, None], axis=1)[:, 0]

    @property
    def score(self) -> float:
        """The lineage score 𝓛 in [-1, 1] (equation 6)."""
        return float(self.by_layer.mean())


def compare_paths(a: PathSignature, b: PathSignature) -> Comparison:
    """Return how similar two models are along one path; both must have the same recipe, width and depth."""
    similarity = cosines(a.sketch, b.sketch)
    gates = gate(a, b)
    assignment = assign(similarity * gates)
    exact = a.sketch.shape[1] == a.sketch.shape[2]
    return Comparison(
        similarity=similarity,
        gate=gates,
        assignment=assignment,
        usable=a.usable & b.usable[assignment],
        concentration=(a.concentration, b.concentration),
        standard_error=0.0 if exact else _standard_error(a.sketch, b.sketch[assignment]),
    )


def cosines(ours: Array, theirs: Array) -> Vector:
    """Return the cosine between every block of one model and every block of another, (L, L); 0 for a zero block.

    The float32 blocks (L, r, c) are summed in float64, a piece that fits the cache at a time.
    """
    left, right = ours.reshape(len(ours), -1), theirs.reshape(len(theirs), -1)
    inner = np.zeros((len(left), len(right)))
    squares = np.zeros(len(left)), np.zeros(len(right))
    for start in range(0, left.shape[1], PIECE):
        pieces = [rows[:, start : start + PIECE].astype(np.float64) for rows in (left, right)]
        inner += pieces[0] @ pieces[1].T
        for square, piece in zip(squares, pieces, strict=True):
            square += np.einsum("ln,ln->l", piece, piece)
    norms = np.sqrt(np.outer(*squares))
    return np.clip(np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0), -1.0, 1.0)


def gate(a: PathSignature, b: PathSignature) -> Vector:
    """Return min(s_i^A / τ, s_j^B / τ, 1) with τ the least trace concentration of A's usable layers; (L, L)."""
    ours = a.concentration[a.usable]
    floor = float(ours.min()) if ours.size else 0.0
    if floor <= 0:
        return np.ones((len(a.norm), len(b.norm)))
    return np.minimum(1.0, np.minimum(a.concentration[:, None], b.concentration[None, :]) / floor)


def assign(gated: Vector) -> NDArray[np.int64]:
    """Return the one-to-one pairing that maximises the sum of a (L, L) matrix (equation 5)."""
    _, columns = linear_sum_assignment(gated, maximize=True)
    return np.asarray(columns, dtype=np.int64)


def _standard_error(ours: Array, theirs: Array) -> float:
    """Delta method over the k probes, each of which gives one estimate of the three inner products behind a cosine."""
    probes = ours.shape[2]
    if probes < 2:
        return float("inf")
    pairs = ((ours, theirs), (ours, ours), (theirs, theirs))
    cross, left, right = (np.einsum("ldk,ldk->lk", x, y).astype(np.float64) for x, y in pairs)
    left_sum, right_sum = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    live = ((left_sum > 0) & (right_sum > 0))[:, 0]
    if not live.any():
        return 0.0
    cross, left, right, left_sum, right_sum = (x[live] for x in (cross, left, right, left_sum, right_sum))
    scale = np.sqrt(left_sum * right_sum)
    cosine = cross.sum(axis=1, keepdims=True) / scale
    influence = (cross / scale - cosine / 2 * (left / left_sum + right / right_sum)).sum(axis=0) / len(live)
    return float(np.sqrt(probes / (probes - 1) * np.sum(influence**2)))
