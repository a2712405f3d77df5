"""Combination: by which weights several parents make up a model, by least squares on their inner products.

Parents of one family differ little from each other, so that inner products are taken of their differences from the
first: Gram matrices here are of P_0, P_1 - P_0, ..., P_(n-1) - P_0 and X - P_0, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hf_lineage.signature import Vector

SINGULAR = 1e-9
"""Differences between parents, each divided by its size, depend on each other below this eigenvalue."""
ERROR = 0.01
"""The probability that a weight lies outside its interval."""
NO_SIZE = 1e-6
"""Parents that are less far apart than this, beside the size of the first, are one and the same."""


def distance(gram: Vector) -> float:
    """Return the mean squared distance of n parents from each other, given a Gram matrix (n + 1, n + 1); 0 for one."""
    count = len(gram) - 1
    apart = [squared(gram, one, other) for one in range(count) for other in range(one)]
    return float(np.mean(apart)) if apart else 0.0


def squared(gram: Vector, one: int, other: int) -> float:
    """Return the squared distance of two of the parents, or of one from the model, whose number is n."""
    between = np.zeros(len(gram))
    between[one] += one > 0
    between[other] -= other > 0
    return max(0.0, float(between @ gram @ between))


def rebased(grams: Vector, order: Sequence[int]) -> Vector:
    """Return the Gram matrices (..., m, m) of some of the models in another order, of which the last is combined.

    The models are the n parents by their numbers, and the one that they make up as n.
    """
    change = np.zeros((len(order), grams.shape[-1]))  # what is taken of the old vectors for each of the new ones
    for row, number in enumerate(order):
        change[row, number] = 1
        change[row, order[0]] -= row > 0
        change[row, 0] = row == 0
    result: Vector = change @ grams @ change.T
    return result


def solved(gram: Vector) -> Vector:
    """Return the weights (n,) of n parents by least squares; they add up to 1 unless the model is scaled as a whole."""
    count = len(gram) - 1
    sizes = np.sqrt(np.maximum(gram.diagonal()[:-1], 0.0))
    known = np.flatnonzero(sizes > NO_SIZE * sizes[0])
    scale = sizes[known]
    inner = gram[np.ix_(known, known)] / np.multiply.outer(scale, scale)
    weights = np.zeros(count)
    weights[known] = np.linalg.lstsq(inner, gram[known, -1] / scale, rcond=SINGULAR)[0] / scale
    return np.append(1 + weights[0] - weights[1:].sum(), weights[1:])


def left(gram: Vector, weights: Vector) -> float:
    """Return the squared size of what is left of the model without a combination of the parents (n,)."""
    residual = np.append(-weights, 1.0)
    residual[0] = 1 - weights.sum()
    return max(0.0, float(residual @ gram @ residual))


def dependents(gram: Vector) -> list[int]:
    """Return the parents that are another one, or lie on the line, plane and so on through others."""
    count = len(gram) - 1
    apart = np.zeros((count, count))
    apart[1:, 1:] = gram[1:-1, 1:-1]
    if count == 1 or apart.diagonal().max() <= NO_SIZE**2 * gram[0, 0]:
        return [] if count == 1 else list(range(count))
    return [parent for parent in range(count) if _depends(apart, parent)]


def jackknife(estimates: Sequence[Vector]) -> Vector:
    """Return half the widths of intervals (n,), from m estimates (m, n) that each leave one part out (Tukey).

    They are not finite where there is one estimate.
    """
    from scipy.special import stdtrit

    left_out, count = np.array(estimates), len(estimates)
    spread = np.sqrt((count - 1) / count * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    errors: Vector = spread * stdtrit(count - 1, 1 - ERROR / 2) if count > 1 else np.full(left_out.shape[1], np.inf)
    return errors


def _depends(apart: Vector, parent: int) -> bool:
    """Return whether a parent lies on a line or plane through others; `apart` are inner products from one origin."""
    order = [parent, *(other for other in range(len(apart)) if other != parent)]
    identity = np.eye(len(apart))[order]
    # Differences of the parent, and of all others but one, from that one.
    differences = np.vstack([identity[0], identity[2:]]) - identity[1]
    gram = differences @ apart @ differences.T
    remains = gram[0, 0] - gram[0, 1:] @ np.linalg.lstsq(gram[1:, 1:], gram[1:, 0], rcond=SINGULAR)[0]
    return bool(remains <= SINGULAR * apart.trace())
