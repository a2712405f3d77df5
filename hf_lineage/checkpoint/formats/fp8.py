"""FP8: eight-bit floating-point matrices with a scale for the whole, for each row, or for each block.

DeepSeek's models are stored so, those that fbgemm and modelopt write, and MXFP8, whose scales are powers of two for 32
numbers each. DeepSeek's experts may be FP4 instead, two numbers to a byte, and modelopt's matrices NVFP4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.fp4_matrix import nvfp4
from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings, pair
from hf_lineage.checkpoint.formats.packing import PAIRS, exponents, write_pairs
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError

EIGHT, FOUR = frozenset({"F8_E4M3", "F8_E5M2"}), frozenset({"I8"})
POWERS = frozenset({"F8_E8M0", "U8"})
SCALES = POWERS | {"F32", "F16", "BF16"}
MX = 32
"""Numbers of one row that share a power of two."""
SCALE_ENDS = (".weight_scale_inv", ".weight_scale")
STACK_ENDS = ("_scale_inv", "_scale")
"""The ends of the names of scales beside a stack of experts."""
ACTIVATIONS = (
    ".input_scale",
    ".input_scale_ub",
    ".activation_scale",
    ".activation_scale_ub",
    ".output_scale",
    ".k_scale",
    ".v_scale",
)
"""Scales of the inputs and outputs of a matrix; the matrix itself does not need them."""


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix, or of a stack; raise CheckpointError where its scales fit no kind of block."""
    if "" in module.parts:
        return _stack(module, stated)
    if ".weight_scale_2" in module.parts:
        return nvfp4(module, ".weight", ".weight_scale", ".weight_scale_2", divides=False)
    end, *others = (end for end in SCALE_ENDS if end in module.parts)
    if others:
        raise module.damaged(f"has its scales twice, as {end} and as {others[0]}")
    rows, columns = module.matrix(".weight", EIGHT | FOUR)
    packed = module.parts[".weight"].dtype in FOUR
    shape = (rows, 2 * columns if packed else columns)
    scales = module.shape(end, SCALES)
    grid = Grid(shape, _block(module, end, shape, scales, stated))
    names = module.names(".weight", end)
    return TensorInfo(shape, names, functools.partial(decode, grid, names[1], packed), itemsize=4)


def decode(grid: Grid, name: str, packed: bool, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return numbers x scales, where `name` is that of the scales."""
    stored, scales = parts
    powers = scales.dtype.itemsize == 1
    values = finite(name, exponents(scales) if powers else scales).reshape(grid.cells)
    if not packed:
        return grid.widened(stored, values)
    return grid.decoded(lambda rows, target: write_pairs(PAIRS, stored[rows], target), values)


def _stack(module: Module, stated: Settings) -> TensorInfo:
    """Experts of one shape, each with its own scales."""
    end = next(end for end in STACK_ENDS if end in module.parts)
    shape, scales = module.shape("", EIGHT), module.shape(end, SCALES)
    if len(shape) != 3 or 0 in shape or not scales or scales[0] != shape[0]:
        raise module.damaged(f"has the shape {shape} and scales of {scales}, which do not fit stacked experts")
    grid = Grid(shape[1:], _block(module, end, shape[1:], scales[1:], stated))
    names = module.names("", end)
    return TensorInfo(shape, names, functools.partial(_decode_stack, grid, names[1]), itemsize=4)


def _decode_stack(grid: Grid, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    stored, scales = parts
    whole = np.empty(stored.shape, np.float32)
    for expert, one in enumerate(stored):
        whole[expert] = decode(grid, name, False, (one, scales[expert]))
    return whole


def _block(
    module: Module, end: str, shape: tuple[int, int], scales: tuple[int, ...], stated: Settings
) -> tuple[int, int]:
    """The size of the blocks to which the scales belong."""
    rows, columns = shape
    if math.prod(scales) == 1:
        return rows, columns
    if scales in ((rows,), (rows, 1)):
        return 1, columns
    size_stated = stated.get("weight_block_size")
    sizes = ((1, MX) if module.parts[end].dtype in POWERS else None, pair(size_stated))
    block = next((size for size in sizes if size and Grid(shape, size).cells == scales), None)
    if block is None:
        raise CheckpointError(
            f"{module.start}{end} has shape {scales}, which does not fit the blocks of a matrix of {shape} that "
            f"config.json (`weight_block_size`: {str(size_stated)[:50]}) or the format names"
        )
    return block


METHODS = frozenset({"fp8", "mxfp8", "fbgemm_fp8", "modelopt"})
FP8 = Quantized("FP8", METHODS, SCALE_ENDS, (".weight", ".weight_scale_2", *ACTIVATIONS), matrix, stacked=STACK_ENDS)
