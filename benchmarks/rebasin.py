"""Re-Basin with scale, the rival of the paper's tables: align the hidden units of two models, then compare weights.

Weight matching after Ainsworth et al., *Git Re-Basin: Merging Models modulo Permutation Symmetries*: the permutation of
a layer's hidden units that maximises the inner product of all weights it touches, found by the Hungarian algorithm.
Between two models with the same residual stream the hidden units of one layer touch that layer's matrices alone, so
the coordinate descent of the original ends after one assignment for each layer. Scale comes before it: every unit is
brought to the one reciprocal rescaling at which it reads and writes with equal norms.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Matrix = NDArray[np.float32]
Block = tuple[Matrix, Matrix]  # W_in (h, d) and W_out (d, h) of one layer's MLP


def similarity(a: Sequence[Block], b: Sequence[Block]) -> float:
    """Return the mean over the layers of the cosine of two models' aligned weights, in [-1, 1]."""
    return float(np.mean([cosine(ours, theirs) for ours, theirs in zip(a, b, strict=True)]))


def cosine(ours: Block, theirs: Block) -> float:
    """Return the cosine of two layers' weights, W_in and W_out together, after alignment; 0 for a layer of zeros."""
    ours, theirs = balanced(ours), balanced(theirs)
    products = unit_products(ours, theirs)
    matched = float(products[np.arange(len(products)), matching(products)].sum())
    norms = norm(ours) * norm(theirs)
    return matched / norms if norms > 0 else 0.0


def norm(block: Block) -> float:
    """Return the Frobenius norm of both matrices of a layer together."""
    return math.hypot(*(float(np.linalg.norm(matrix)) for matrix in block))


def balanced(block: Block) -> Block:
    """Return a layer rescaled to D W_in, W_out D⁻¹ with ‖row‖ = ‖column‖ for each unit; dead units become zero."""
    w_in, w_out = block
    reads, writes = np.linalg.norm(w_in, axis=1), np.linalg.norm(w_out, axis=0)
    alive = (reads > 0) & (writes > 0)
    scale = np.sqrt(np.divide(writes, reads, out=np.zeros_like(reads), where=alive))
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=alive)
    return w_in * scale[:, None], w_out * inverse


def unit_products(ours: Block, theirs: Block) -> Matrix:
    """Return the inner product of every unit of one layer with every unit of another, (h, h)."""
    products: Matrix = ours[0] @ theirs[0].T + ours[1].T @ theirs[1]
    return products


def matching(products: Matrix) -> NDArray[np.int64]:
    """Return the unit that each unit is matched with, (h,), so that the sum of their products is largest."""
    return np.asarray(linear_sum_assignment(products, maximize=True)[1], dtype=np.int64)
