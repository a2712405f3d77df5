"""torchao in safetensors: matrices of one byte to a number, integers or floats, with a scale for each row or block."""

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

NUMBERS, SCALES, ZEROS = frozenset({"I8", "F8_E4M3", "F8_E5M2"}), frozenset({"F32", "F16", "BF16"}), frozenset({"I8"})
MATRIX, SCALE, ZERO = "._weight_qdata", "._weight_scale", "._weight_zero_point"


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare where it is packed, as for four bits."""
    del stated
    if module.parts[MATRIX].dtype not in NUMBERS or SCALE not in module.parts:
        dtype = module.parts[MATRIX].dtype
        raise not_decoded(f"as torchao with {dtype}; hf-lineage decodes only matrices with one byte for each number")
    rows, columns = shape = module.matrix(MATRIX, NUMBERS)
    down, across = module.matrix(SCALE, SCALES)
    if rows % down or columns % across:
        raise module.damaged(f"has scales of shape {(down, across)}, which do not fit blocks of a matrix of {shape}")
    ends = [MATRIX, SCALE]
    if ZERO in module.parts:
        module.shape(ZERO, ZEROS, (down, across))
        ends.append(ZERO)
    grid, names = Grid(shape, (rows // down, columns // across)), module.names(*ends)
    return TensorInfo(shape, names, functools.partial(decode, grid, names[1]), itemsize=4)


def decode(grid: Grid, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix, where `name` is that of the scales."""
    stored, scales, *zero_points = parts
    zeros = zero_points[0].astype(np.float32) if zero_points else None
    return grid.widened(stored, finite(name, scales).reshape(grid.cells), zeros)


TORCHAO = Quantized("torchao", frozenset({"torchao"}), (MATRIX,), (SCALE, ZERO), matrix)
