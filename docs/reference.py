"""The paper's score of two models, written as its equations are; the tests hold hf_lineage against it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Matrix = NDArray[np.float64]
Layer = tuple[Matrix, Matrix]
"""W_down (d, h) and W_up (h, d)."""


def score(a: Sequence[Layer], b: Sequence[Layer]) -> float:
    """Return the lineage score of model b beside the reference a."""
    (s_a, phi_a), (s_b, phi_b) = signature(a), signature(b)
    similarity = phi_a @ phi_b.T  # cosines of all pairs of layers
    threshold = s_a.min()
    gate = np.minimum(np.minimum.outer(s_a, s_b) / threshold, 1)
    rows, columns = linear_sum_assignment(similarity * gate, maximize=True)  # equation 5
    return float(similarity[rows, columns].mean())  # equation 6, without the gate


def signature(model: Sequence[Layer]) -> tuple[Matrix, Matrix]:
    """Return s (L,) and φ (L, d²): trace concentration and normalised residual of every layer."""
    products = [down @ up for down, up in model]  # equation 1
    s = [abs(np.trace(m)) / np.linalg.norm(m) for m in products]  # equation 3
    residuals = [(m - np.trace(m) / len(m) * np.eye(len(m))).ravel() for m in products]  # equation 4
    return np.array(s), np.array([r / np.linalg.norm(r) for r in residuals])
