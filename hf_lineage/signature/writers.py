"""Writing: which layers of a model write into its residual stream, beside what else is in it.

What a branch writes counts beside the stream that it joins: units that are stored and alive change nothing in a model
whose embedding, or whose attention, is a thousand times as loud.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.recipe import Vector

LARGEST = 1e150
"""What is larger, or not finite, counts as this size: its square is a finite number."""
LEAST = 1e-3
"""A layer that adds less than this share of the stream that it joins writes nothing."""
LOUDEST = 2.0
"""A layer of the same branch counts in the stream for so many times that at most, or one that is
loud and dead would silence all others."""
JOINED = 4
"""How many numbers say what a layer is added to."""
LOUD, USUAL = math.log(30.0), math.log(10.0)
"""What is not measured may act so much more strongly than in the base, as a logarithm; and in any base so strongly."""


def beside_base(joins: Vector, base: Vector) -> Vector:
    """Return what the path of a candidate joins, (L, 4), the stream as loud as can be where its size is not known.

    It is so where what is not measured acts much more strongly than it does in any layer of the base, whose rows are
    (K, 4). Continued training moves a gain by a few per cent.
    """
    most = np.maximum(base[:, 2:].max(axis=0, initial=0.0), USUAL) + LOUD
    return np.hstack([np.where(joins[:, 2:] > most, LARGEST, joins[:, :2]), joins[:, 2:]])


def writing(writes: Vector, joins: Vector | None, counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which layers write, of those that are counted, (L,): what they add is not lost in the stream.

    Of every layer is given what its branch writes, (L,), and what that joins, (L, 4), as in `PathSignature.joins`. What
    layers usually write is a part of every stream, since nothing else may be known of it.
    """
    if not counted.any():
        return counted
    typical = float(np.quantile(writes[counted], 0.5, method="lower"))
    own = np.where(counted, np.minimum(writes, LOUDEST * typical), 0.0) ** 2
    known = np.zeros((len(writes), 2)) if joins is None else np.where(np.isfinite(joins), joins, LARGEST)[:, :2]
    begins, others = known.T**2
    stream = np.sqrt(typical**2 + begins + others.cumsum() + own.cumsum() - own)
    writing: NDArray[np.bool_] = counted & (writes >= LEAST * stream)
    return writing
