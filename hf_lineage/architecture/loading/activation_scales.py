"""Activation scales: how large an input a quantized matrix takes, beside what the norm before it gives.

Inputs far above the largest number of the format are cut off, and those far below its step are 0: the branch is idle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.layout import Layout

NAME = re.compile(r"(?P<matrix>.+)\.(?:input|output|activation|k|v)(?P<divides>_global)?_scale(?:_ub)?")
LARGEST = 448.0
"""The largest number of E4M3; of the other formats it is 3 times less to 6 times more."""
LEAST, MOST = 1e-2, 1e6
"""The largest input over the root mean square of the gain; calibration gives 1 to some ten thousand."""
MOST_NUMBERS = 2**16
"""A scale for each expert, at most."""


def within_range(
    layout: Layout,
    names: Iterable[str],
    shapes: Mapping[str, Shape],
    read: Callable[[str], NDArray[Any]],
    prefetch: Callable[..., None] = lambda *_: None,
) -> Iterator[str]:
    """Yield the names of activation scales, among some, with which inputs as a norm gives them reach the matrix."""
    scales = [name for name in names if NAME.fullmatch(name) and np.prod(shapes[name], dtype=float) <= MOST_NUMBERS]
    prefetch(*scales)
    norms = {
        slot.tensor.removesuffix(".weight"): layer_set.norm
        for layer_set in layout.everything
        for slot in layer_set.slots.values()
    }
    for name, match in zip(scales, map(NAME.fullmatch, scales), strict=True):
        if match and _passes(read(name), match["divides"], _gain(layout, norms.get(match["matrix"]), read)):
            yield name


def _gain(layout: Layout, norm: str | None, read: Callable[[str], NDArray[Any]]) -> float:
    """The root mean square of a norm's gain; 1 where there is no norm."""
    added = layout.factorization.gain == "one_plus"
    return float(np.sqrt(np.mean((read(norm).astype(np.float64) + added) ** 2))) if norm else 1.0


def _passes(stored: NDArray[Any], divides: str | None, gain: float) -> bool:
    with np.errstate(all="ignore"):
        scales = stored.astype(np.float64)
        reach = LARGEST * (1 / scales if divides else scales) / gain
    return bool(reach.size and np.all((reach >= LEAST) & (reach <= MOST)))
