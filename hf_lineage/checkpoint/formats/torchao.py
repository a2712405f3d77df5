"""torchao in safetensors: matrices of one byte to a number, integers or floats, with a scale for each row or block."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, filled_ends, least, slack, uniform
from hf_lineage.checkpoint.formats.fp8 import float_codes
from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings
from hf_lineage.checkpoint.formats.plain import not_decoded
from hf_lineage.checkpoint.tensor import Decode, TensorInfo

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
    decoded = functools.partial(decode, grid, names[1])
    dtypes = module.parts[MATRIX].dtype, module.parts[SCALE].dtype
    codes = eight_bits("torchao", decoded, grid, dtypes, ZERO in ends)
    return TensorInfo(shape, names, decoded, itemsize=4, codes=codes)


def eight_bits(name: str, decoded: Decode, grid: Grid, dtypes: tuple[str, str], both: bool = False) -> Codes:
    """Return the grid of numbers of one byte, given their format and that of their scales."""
    dtype, scales = dtypes
    if dtype != "I8":
        return float_codes(f"FP8 of {name}", decoded, dtype, grid.block, scales)
    levels, ends = uniform(256), filled_ends(0, 0x80, 0x7F)
    return Codes(
        f"INT8 of {name}",
        *ends,
        decoded,
        levels,
        grid.block,
        both,
        slack(levels, scales),
        least(levels, scales),
        reach=1.55,
    )


def decode(grid: Grid, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix, where `name` is that of the scales."""
    stored, scales, *zero_points = parts
    zeros = zero_points[0].astype(np.float32) if zero_points else None
    return grid.widened(stored, finite(name, scales).reshape(grid.cells), zeros)


TORCHAO = Quantized("torchao", frozenset({"torchao"}), (MATRIX,), (SCALE, ZERO), matrix)
