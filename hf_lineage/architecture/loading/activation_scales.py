"""Activation scales: the range of inputs that a quantized matrix takes, compared with the output of the norm before it.

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

NAME = re.compile(r"(?P<matrix>.+)\.(?:input|output|activation|q|k|v|kv)(?P<divides>_global)?_scale(?:_ub)?")
LARGEST = 448.0
"""The largest number of E4M3; of the other formats it is 3 times less to 6 times more."""
LEAST, MOST = 1e-2, 1e6
"""The largest input over the root mean square of the gain; calibration gives 1 to some ten thousand."""
MOST_NUMBERS = 2**16
"""The most numbers of a tensor of scales, which may have one for each expert."""


def within_range(
    layout: Layout,
    names: Iterable[str],
    shapes: Mapping[str, Shape],
    read: Callable[[str], NDArray[Any]],
    prefetch: Callable[..., None] = lambda *_: None,
) -> Iterator[str]:
    """Yield, of some names, those of activation scales with which the output of a norm reaches the matrix."""
    small = (name for name in names if np.prod(shapes[name], dtype=float) <= MOST_NUMBERS)
    scales = {name: match for name in small if (match := NAME.fullmatch(name))}
    prefetch(*scales)
    norms = {
        slot.tensor.removesuffix(".weight"): layer_set.norm
        for layer_set in layout.everything
        for slot in layer_set.slots.values()
    }
    added = layout.factorization.gain == "one_plus"
    for name, match in scales.items():
        norm, scale = norms.get(match["matrix"]), read(name).astype(np.float64)
        gain = read(norm).astype(np.float64) + added if norm else np.ones(1)
        with np.errstate(all="ignore"):
            reach = LARGEST * (1 / scale if match["divides"] else scale) / np.sqrt(np.mean(gain**2))
        if reach.size and np.all((reach >= LEAST) & (reach <= MOST)):
            yield name
