"""torchao, optimum-quanto and BitNet: matrices of a byte or less to a number, with a scale for each row or for all.

It writes the names of its own classes into `quanto_qmap.json`, and nothing into config.json. With fewer bits the shape
of a matrix is not stored, so such matrices are refused.

A byte holds the numbers of one column and of four rows, which are as many rows apart as there are bytes in a column.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, integers
from hf_lineage.checkpoint.formats.fp8 import float_codes
from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings, not_decoded
from hf_lineage.checkpoint.tensor import Decode, TensorInfo

NUMBERS, SCALES, ZEROS = frozenset({"I8", "F8_E4M3", "F8_E5M2"}), frozenset({"F32", "F16", "BF16"}), frozenset({"I8"})
MATRIX, SCALE, ZERO = "._weight_qdata", "._weight_scale", "._weight_zero_point"


def torchao_matrix(module: Module, stated: Settings) -> TensorInfo:
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
    decoded = functools.partial(torchao_decode, grid, names[1])
    dtypes = module.parts[MATRIX].dtype, module.parts[SCALE].dtype
    codes = eight_bits("torchao", decoded, grid, dtypes, ZERO in ends)
    return TensorInfo(shape, names, decoded, itemsize=4, codes=codes)


def eight_bits(name: str, decoded: Decode, grid: Grid, dtypes: tuple[str, str], both: bool = False) -> Codes:
    """Return the grid of numbers of one byte, given their format and that of their scales."""
    dtype, scales = dtypes
    if dtype != "I8":
        return float_codes(f"FP8 of {name}", decoded, dtype, grid.block, scales)
    return integers(f"INT8 of {name}", decoded, 8, grid.block, scales, (0x80, 0x7F), both=both)


def torchao_decode(grid: Grid, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix, where `name` is that of the scales."""
    stored, scales, *zero_points = parts
    zeros = zero_points[0].astype(np.float32) if zero_points else None
    return grid.widened(stored, finite(name, scales).reshape(grid.cells), zeros)


TORCHAO = Quantized("torchao", frozenset({"torchao"}), (MATRIX,), (SCALE, ZERO), torchao_matrix)

DATA, QUANTO_SCALE, BITS = ".weight._data", ".weight._scale", ".weight._data._data"


def quanto_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare where it has fewer than eight bits to a number."""
    del stated
    if BITS in module.parts:
        raise not_decoded("by quanto with fewer than eight bits, and their shapes are not stored")
    shape = module.matrix(DATA, NUMBERS)
    scales = module.shape(QUANTO_SCALE, SCALES)
    if scales not in ((shape[0], 1), (1, 1), (1,), ()):
        raise module.damaged(f"has scales of shape {scales}, which do not fit the rows of a matrix of {shape}")
    grid, names = Grid(shape, shape if scales != (shape[0], 1) else (1, shape[1])), module.names(DATA, QUANTO_SCALE)
    decoded = functools.partial(torchao_decode, grid, names[1])
    dtypes = module.parts[DATA].dtype, module.parts[QUANTO_SCALE].dtype
    return TensorInfo(shape, names, decoded, itemsize=4, codes=eight_bits("quanto", decoded, grid, dtypes))


INPUTS = (".input_scale", ".output_scale")
"""Stored with matrices alone too, and used only where inputs are quantized, which transformers refuses."""
QUANTO = Quantized(
    "quanto",
    frozenset(),
    (BITS, DATA),
    (QUANTO_SCALE, ".weight._shift", *INPUTS),
    quanto_matrix,
    inert=INPUTS,
    alone=True,
)

BYTES, FLOATS = frozenset({"U8"}), frozenset({"F32", "F16", "BF16"})
TO_A_BYTE = 4
UNBOUND = "models of BitNet are trained with their rounding"
"""Why no bound holds for each number."""
DIVIDES = {"bitlinear": True, "autobitlinear": False}
"""Value of `linear_class` -> whether the stored scale divides the matrix; otherwise it multiplies the matrix."""


def bitnet_matrix(module: Module, stated: Settings) -> TensorInfo:
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
    return TensorInfo(
        shape, names, functools.partial(bitnet_decode, names[1], DIVIDES[kind]), itemsize=4, codes=UNBOUND
    )


def bitnet_decode(name: str, divides: bool, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
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


BITNET = Quantized("BitNet", frozenset({"bitnet"}), (".weight_scale",), (".weight",), bitnet_matrix)
