"""compressed-tensors: integers packed in words or one to a byte, and floating-point numbers of eight and four bits.

How a matrix is stored shows in its parts; one of the groups of config.json has to fit it.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, Parts, integers
from hf_lineage.checkpoint.formats.grid import Grid, Matrix, across, down, finite, words
from hf_lineage.checkpoint.formats.modules import INDICES, WORDS, Format, Module, Settings, pair
from hf_lineage.checkpoint.formats.scaled import EIGHT, SCALES_OR_POWERS, float_codes, four_bits
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError

SIGNED = frozenset({"I8"})
INT = "INT{} of compressed-tensors"
PACKED, SCALE, ZERO = ".weight_packed", ".weight_scale", ".weight_zero_point"
ORDER, SHAPE, WHOLE = ".weight_g_idx", ".weight_shape", ".weight_global_scale"
PARTS = (".weight", SCALE, ZERO, ORDER, SHAPE, WHOLE)
METHODS = frozenset({"compressed-tensors"})


def _block(weights: Mapping[str, Any], shape: tuple[int, int]) -> tuple[int, int] | None:
    """Return the size of the blocks of a matrix that share a scale; None where a group's settings do not say it."""
    size: Any = weights.get("group_size")
    strategy = weights.get("strategy")
    grouped = type(size) is int and size > 0
    strategy = strategy or ("group" if grouped else "channel" if size == -1 else "tensor")
    if strategy in ("group", "tensor_group"):
        return (1, size) if grouped else None
    if strategy == "block":
        return pair(weights.get("block_structure"))
    return {"tensor": shape, "channel": (1, shape[1])}.get(strategy) if isinstance(strategy, str) else None


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts fit no group of config.json."""
    if PACKED in module.parts:
        if module.parts[PACKED].dtype in WORDS:
            return _words(module, stated)
        return four_bits(module, PACKED, SCALE, *([WHOLE] if WHOLE in module.parts else []), divides=True)
    shape = module.matrix(".weight", EIGHT | SIGNED)
    shifted, grid = _fitting(module, shape, 8, stated)
    ends = [".weight", SCALE]
    if shifted:
        module.shape(ZERO, SIGNED, module.parts[SCALE].shape)
        ends.append(ZERO)
    decode = functools.partial(grid.decode_bytes, f"{module.start}{SCALE}")
    dtype, scales = module.parts[".weight"].dtype, module.parts[SCALE].dtype
    if dtype in SIGNED:
        codes = integers(INT.format(8), decode, 8, grid.block, scales, (0x80, 0x7F), both=shifted, zero=shifted)
    else:
        codes = float_codes("FP8", decode, dtype, grid.block, scales)
    return module.tensor(shape, ends, decode, codes)


def _words(module: Module, stated: Settings) -> TensorInfo:
    rows, width = module.matrix(PACKED, WORDS)
    module.shape(SHAPE, INDICES, (2,))
    shape = _shape(module.start, module.first_parts[SHAPE])
    bits = next((bits for bits in range(1, 9) if (rows, words(shape[1], bits)) == (shape[0], width)), 0)
    if not bits:
        raise module.make_error(f"is packed in ({rows}, {width}) words, which do not fit a matrix of {shape}")
    shifted, grid = _fitting(module, shape, bits, stated)
    ends, scales = [PACKED, SHAPE, SCALE], module.parts[SCALE].dtype
    if ORDER in module.parts:
        module.shape(ORDER, INDICES, (shape[1],))
        ends.append(ORDER)
    if shifted:
        whole = grid.cells[0] == 1 < shape[0]
        module.shape(ZERO, SIGNED if whole else WORDS, (1,) if whole else (words(shape[0], bits), grid.cells[1]))
        ends.append(ZERO)
    decode = functools.partial(_decode_words, module.start, grid, bits, ORDER in ends)
    codes: Codes | str = integers(INT.format(bits), decode, bits, grid.block, scales, both=shifted, zero=shifted)
    if ORDER in ends:
        codes = "a quantizer that orders columns by calibration data rounds many numbers away from the nearest value"
    return module.tensor(shape, ends, decode, codes)


def _decode_words(name: str, grid: Grid, bits: int, ordered: bool, parts: Parts) -> Matrix:
    packed, shape, scales, *others = parts
    if _shape(name, shape) != grid.shape:
        raise CheckpointError(f"{name}{SHAPE} says another shape than the tensors with this name in other layers")
    groups = others.pop(0) if ordered else None
    if groups is not None and not (groups == -1).any():  # -1 stands for columns that lie side by side
        count = grid.cells[1]
        if groups.min() < 0 or groups.max() >= count:
            raise CheckpointError(f"{name}{ORDER} names a group that is not among its {count}; have it saved again")
        grid = Grid(grid.shape, grid.block, columns=groups.astype(np.intp))
    zeros = np.full(grid.cells, 2 ** (bits - 1), np.float32)
    for zero_points in others:
        if zero_points.dtype == np.int8:
            zeros += zero_points.astype(np.float32)
        else:
            down(zero_points, bits)(slice(0, len(zeros)), zeros)
    return grid.decode(across(packed, bits), finite(f"{name}{SCALE}", scales).reshape(grid.cells), zeros)


def _fitting(module: Module, shape: tuple[int, int], bits: int, stated: Settings) -> tuple[bool, Grid]:
    """Return whether the first group of config.json that fits a matrix has zero points, and the matrix's blocks."""
    scales, groups = module.shape(SCALE, SCALES_OR_POWERS), stated.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict) or weights.get("num_bits", 8) != bits:
            continue
        block = _block(weights, shape)
        if block is not None:
            grid = Grid(shape, block)
            column, whole = grid.cells[:1] if grid.cells[1] == 1 else None, () if block == shape else None
            if scales in (grid.cells, column, whole):
                return weights.get("symmetric", True) is False, grid
    what = f"{module.start} has {bits} bits, shape {shape} and scales of shape {scales}"
    raise CheckpointError(f"{what}, which no group of `config_groups` in config.json describes; have both saved again")


def _shape(name: str, stored: NDArray[Any]) -> tuple[int, int]:
    rows, columns = (int(size) for size in stored)
    if not (0 < rows < 2**31 and 0 < columns < 2**31):
        raise CheckpointError(f"{name}{SHAPE} says {rows} x {columns}, which is not the shape of a matrix")
    return rows, columns


COMPRESSED = Format("compressed-tensors", METHODS, (PACKED, SCALE), PARTS, matrix, describing_ends=(SHAPE,))
