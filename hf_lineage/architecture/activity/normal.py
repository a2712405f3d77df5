"""The standard normal distribution, of which scipy is imported only where there are enough numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ROOT_TAU, ROOT_TWO = math.sqrt(math.tau), math.sqrt(2)
FEW = 1024
"""Up to so many numbers are computed one by one: importing scipy.special would take longer."""


def share_below(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a standard normal number lies below each of these."""
    if z.size <= FEW:
        shares = [0.5 * math.erfc(-value / ROOT_TWO) for value in z.ravel().tolist()]
        return np.array(shares).reshape(z.shape)
    from scipy.special import ndtr

    below: NDArray[np.float64] = ndtr(z)
    return below


def density_at(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of the standard normal distribution at these numbers."""
    density: NDArray[np.float64] = np.exp(-0.5 * z * z) / ROOT_TAU
    return density
