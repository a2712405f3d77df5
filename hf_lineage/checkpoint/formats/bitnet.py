"""BitNet: numbers that are -1, 0 or 1, four to a byte, with one scale for the whole matrix.

A byte holds the numbers of one column and of four rows, which are as many rows apart as there are bytes in a column.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings
from hf_lineage.checkpoint.formats.plain import not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo

BYTES, FLOATS = frozenset({"U8"}), frozenset({"F32", "F16", "BF16"})
TO_A_BYTE = 4
UNBOUND = "models of BitNet are trained with their rounding"
"""Why no bound holds for each number."""
DIVIDES = {"bitlinear": True, "autobitlinear": False}
"""Value of `linear_class` -> whether the stored scale divides the matrix; otherwise it multiplies the matrix."""


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a kind of layer that computes something else."""
    kind = stated.get("linear_class", "bitlinear")
    if not isinstance(kind, str) or kind not in DIVIDES or stated.get("use_rms_norm"):
        raise not_decoded(
            "as BitNet for layers that compute more than a matrix product, as `quantization_config` of config.json says"
        )
    height, columns = module.matrix(".weight", BYTES)
    module.shape(".weight_scale", FLOATS)
    if module.parts[".weight_scale"].numbers != 1:
        raise module.damaged(f"has {module.parts['.weight_scale'].numbers} scales, not one")
    shape = TO_A_BYTE * height, columns
    names = module.names(".weight", ".weight_scale")
    return TensorInfo(shape, names, functools.partial(decode, names[1], DIVIDES[kind]), itemsize=4, codes=UNBOUND)


def decode(name: str, divides: bool, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix, where `name` is that of the scale."""
    packed, stored = parts
    height, columns = packed.shape
    scale = finite(name, stored).reshape(1, 1)
    with np.errstate(divide="ignore"):
        scale = finite(name, 1 / scale) if divides else scale

    def unpack(rows: slice, target: NDArray[np.float32]) -> None:
        place, row = np.divmod(np.arange(rows.start, rows.stop), height)
        target[...] = (packed[row] >> (2 * place).astype(np.uint8)[:, None]) & np.uint8(3)
        target -= 1

    shape = TO_A_BYTE * height, columns
    return Grid(shape, shape).decoded(unpack, scale)


BITNET = Quantized("BitNet", frozenset({"bitnet"}), (".weight_scale",), (".weight",), matrix)
