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
"""A layer counts in the stream of later ones for at most so many usual sizes: else a loud dead one would silence
them."""
JOINED = 4
"""How many numbers say what a layer is added to."""
LOUD, USUAL = math.log(30.0), math.log(10.0)
"""How much more strongly unmeasured tensors may act than in the base, and how strongly in any base, as logarithms."""


def beside_base(joins: Vector, base: Vector) -> Vector:
    """Return what the path of a candidate joins, (L, 4), the stream as loud as can be where its size is not known.

    The size is not known if unmeasured tensors act much more strongly than in any layer of the base, whose rows are (K,
    4). Continued training moves a gain by a few per cent.
    """
    most = np.maximum(base[:, 2:].max(axis=0, initial=0.0), USUAL) + LOUD
    return np.hstack([np.where(joins[:, 2:] > most, LARGEST, joins[:, :2]), joins[:, 2:]])


def writing(writes: Vector, joins: Vector | None, counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which layers write, of those that are counted, (L,): what they add is not lost in the stream.

    `writes` holds how much the branch of each layer writes, (L,), and `joins` what it joins, (L, 4), as in
    `PathSignature.joins`. What layers usually write counts as a part of every stream: nothing else may be known.
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
