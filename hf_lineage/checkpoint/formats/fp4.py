"""FP4: two numbers of four bits in a byte, one of sign, two of exponent and one of the fraction (E2M1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.numbers import DTYPES, single

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The sixteen numbers, by their bits."""


def pairs(low_first: bool, *values: float) -> NDArray[np.float64]:
    """Return for each byte the two of sixteen numbers that it holds, in float32 but seen as one of twice the size."""
    code, byte = np.array(values, np.float32), np.arange(256)
    halves = (byte & 15, byte >> 4) if low_first else (byte >> 4, byte & 15)
    table: NDArray[np.float64] = np.stack([code[half] for half in halves], axis=1).reshape(-1).view(np.float64)
    return table


def write_pairs(table: NDArray[np.float64], packed: NDArray[Any], target: NDArray[np.float32]) -> None:
    """Write the numbers of bytes (..., n), two of each by `pairs`, into an array in float32 (..., 2 n)."""
    np.take(table, packed.view(np.uint8), out=target.view(np.float64), mode="wrap")


PAIRS = pairs(True, *E2M1)
"""The lower half of a byte is the first number."""


def exponents(stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return scales that are stored as a power of two in one byte, E8M0, in float32; 255 is not a number."""
    return single(stored.view(DTYPES["F8_E8M0"]))
