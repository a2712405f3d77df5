"""HQQ: integers of 1, 2, 3, 4 or 8 bits, a scale and a zero point for each group; `scale x (integer - zero)`.

A matrix is read as groups, one below the other (`axis` 1) or side by side (0). Integers share a byte, or a word of 32
bits where they have 3 bits: they are as many rows apart as a column has words, the first in the highest bits. Small
tensors beside a matrix describe its storage. Source: hqq/core/quantize.py and hqq/core/bitpack.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.grid import Grid, finite, planes
from hf_lineage.checkpoint.formats.modules import SCALES, Module, Quantized, Settings, not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable

UNBOUND = "HQQ moves its zero points in search of a smaller error"
"""Why no bound holds for each number."""
BITS = {"8bit_u8": 8, "4bit_u8": 4, "2bit_u8": 2, "1bit_u8": 1, "3bit_32": 3}
"""The bits of an integer, by the name of its packing."""
DESCRIBED = (".shape", ".group_size", ".axis", ".packing", ".view_as_float")
BESIDE = (
    *(".nbits", ".compute_dtype", ".unpack_view_dtype", ".quant_scale", ".quant_zero", ".offload_meta"),
    *(".encoded_state_dict", ".stores_quant_config", ".channel_wise", ".optimize", ".round_zero"),
)
"""Parts that are not needed to decode the matrix."""


class _Stored(NamedTuple):
    """The shape, group size, axis and bits of one stored matrix."""

    shape: tuple[int, int]
    group: int
    axis: int
    bits: int

    @property
    def grid(self) -> Grid:
        """The matrix as groups, with the block that each scale is for."""
        groups = math.prod(self.shape) // self.group
        if self.axis == 1:
            return Grid((groups, self.group), (1, self.group))
        return Grid((self.group, groups), (self.group, 1))

    @property
    def packed(self) -> tuple[str, tuple[int, int]]:
        """Number format and shape of the integers."""
        rows, columns = self.grid.shape
        return ("I32", (-(-rows // 10), columns)) if self.bits == 3 else ("U8", (-(-rows * self.bits // 8), columns))


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other."""
    del stated
    module.shape(".W_q", frozenset({"U8", "I32"}))
    stored = _stored(module.start, [module.described.get(end) for end in DESCRIBED])
    dtype, packed = stored.packed
    module.shape(".W_q", frozenset({dtype}), packed)
    for end in (".scale", ".zero"):
        module.shape(end, SCALES, stored.grid.cells)
    ends, decode = (".W_q", ".scale", ".zero", *DESCRIBED), functools.partial(_decode, module.start, stored)
    return module.tensor(stored.shape, ends, decode, UNBOUND)


def _decode(name: str, stored: _Stored, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix (out, in)."""
    packed, scales, zeros, *described = parts
    if _stored(name, described) != stored:
        raise CheckpointError(f"{name} is not stored like the matrices with this name in other layers")
    values = finite(f"{name}.scale", scales), finite(f"{name}.zero", zeros)
    whole = stored.grid.decoded(planes(packed, stored.bits, high_first=True), *values)
    return whole.reshape(stored.shape)


def _stored(name: str, described: Sequence[NDArray[Any] | None]) -> _Stored:
    """Return the checked values of the small tensors beside a matrix; raise CheckpointError where they are invalid."""
    shown = printable(name, 200)
    missing = next((end for end, part in zip(DESCRIBED, described, strict=True) if part is None), None)
    if missing:
        raise CheckpointError(
            f"{shown}{missing} is missing, and {shown} cannot be decoded without it; have it saved again"
        )
    shape, group, axis, packing, viewed = (part.ravel().tolist() for part in described if part is not None)
    named = "".join(chr(letter) for letter in packing if type(letter) is int and 0 <= letter < 128)
    if named not in BITS or viewed not in ([0], [False]):
        form = printable(named, 50) + (" as floats" if any(viewed) else "")
        raise not_decoded(f"by HQQ with the packing {form}, which is not decoded")
    sizes = [*shape, *group]
    whole = all(type(size) is int and 0 < size < 2**31 for size in sizes) and len(shape) == 2 and len(group) == 1
    if not whole or axis not in ([0], [1]) or math.prod(shape) % group[0]:
        raise CheckpointError(f"{shown} does not say its shape and its groups; have the weights saved again")
    return _Stored((shape[0], shape[1]), group[0], axis[0], BITS[named])


ENDS = (".scale", ".zero", *DESCRIBED, *BESIDE)
HQQ = Quantized("HQQ", frozenset({"hqq"}), (".W_q",), ENDS, matrix, described=DESCRIBED, inert=BESIDE)
