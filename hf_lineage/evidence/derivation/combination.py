"""Combination: by which weights several parents make up a merge, by least squares on their inner products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hf_lineage.signature import Vector

SINGULAR = 1e-9
"""Below this eigenvalue, differences between parents, each divided by its size, are linearly dependent."""
ERROR = 0.01
"""The probability that a weight lies outside its interval."""
NO_SIZE = 1e-6
"""Parents that are nearer than this to each other, relative to the size of the merge, count as the same."""


def distance(gram: Vector) -> float:
    """Return the mean squared distance of several from each other, given their inner products (n, n); 0 for one."""
    squares = np.add.outer(gram.diagonal(), gram.diagonal()) - 2 * gram
    return max(0.0, float(squares.sum() / max(1, len(gram) * (len(gram) - 1))))


def solved(gram: Vector) -> tuple[Vector, list[int]]:
    """Return the weights (n,) of n parents by least squares, and the parents that equal combinations of others.

    Parents differ only a little, so the unknowns are their mean and these differences.
    """
    count = len(gram) - 1
    mean, centring = np.full((count, 1), 1 / count), np.eye(count) - 1 / count
    centred = centring @ gram[:-1, :-1] @ centring
    sizes = np.sqrt(np.maximum(centred.diagonal(), 0.0))
    if count == 1 or sizes.max() <= NO_SIZE * math.sqrt(gram[-1, -1]):
        return _least_squares(gram, mean), [] if count == 1 else list(range(count))
    scale = 1 / np.maximum(sizes, NO_SIZE * sizes.max())
    values, vectors = np.linalg.eigh(centred * np.multiply.outer(scale, scale))
    differences = centring @ (scale[:, None] * vectors[:, values > SINGULAR])
    weights = _least_squares(gram, np.hstack([mean, differences]))
    return weights, [parent for parent in range(count) if _depends(centred, parent)]


def jackknife(estimates: Sequence[Vector]) -> Vector:
    """Return half the widths of intervals (n,), from m estimates (m, n) that each leave one part out (Tukey).

    They are not finite where there is one estimate.
    """
    from scipy.special import stdtrit

    left_out, count = np.array(estimates), len(estimates)
    spread = np.sqrt((count - 1) / count * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    errors: Vector = spread * stdtrit(count - 1, 1 - ERROR / 2) if count > 1 else np.full(left_out.shape[1], np.inf)
    return errors


def _depends(centred: Vector, parent: int) -> bool:
    """Whether each parent equals another one, or a combination of others: it lies on their line, plane and so on."""
    order = [parent, *(other for other in range(len(centred)) if other != parent)]
    identity = np.eye(len(centred))[order]
    # Differences of the parent, and of all others but one, from that one.
    differences = np.vstack([identity[0], identity[2:]]) - identity[1]
    gram = differences @ centred @ differences.T
    left = gram[0, 0] - gram[0, 1:] @ np.linalg.lstsq(gram[1:, 1:], gram[1:, 0], rcond=SINGULAR)[0]
    return bool(left <= SINGULAR * centred.trace())


def _least_squares(gram: Vector, basis: Vector) -> Vector:
    """The combination of parents (n,) out of a basis (n, b) that is nearest to the merge."""
    normal, right = basis.T @ gram[:-1, :-1] @ basis, basis.T @ gram[:-1, -1]
    weights: Vector = basis @ np.linalg.lstsq(normal, right, rcond=None)[0]
    return weights
