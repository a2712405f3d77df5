"""A byte or less to a number, and a scale for a matrix, a row or a block: FP8, FP4, torchao, optimum-quanto and BitNet.

FP8 is in models of DeepSeek, fbgemm and modelopt, and in MXFP8. FP4 has two numbers to a byte, as in DeepSeek's
experts. MXFP4 has a power of two for 32 numbers each; NVFP4 eight bits for 16 each, and one number for the matrix.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import ONE, Codes, Decode, Pair, Parts, filled_ends, integers, slack, table
from hf_lineage.checkpoint.formats.grid import E2M1, PAIRS, Grid, Matrix, finite, finite_numbers, planes, write_pairs
from hf_lineage.checkpoint.formats.modules import BYTES, SCALES, SINGLE, Format, Module, Settings, not_decoded, pair
from hf_lineage.checkpoint.tensor import TensorInfo, single
from hf_lineage.errors import CheckpointError, printable

EIGHT, FOUR = frozenset({"F8_E4M3", "F8_E5M2"}), frozenset({"I8"})
POWERS = frozenset({"F8_E8M0", "U8"})
SCALES_OR_POWERS = SCALES | POWERS
MX, NV, BLOCK = 32, 16, (128, 128)  # of a row that share a scale; blocks where config.json does not say their size
ENDS = {"F8_E4M3": (0xFE, 0x7E), "F8_E5M2": (0xFB, 0x7B)}  # bytes of the least finite number, and of the largest
LEVELS = {"": table(E2M1)} | {dtype: table(finite_numbers(dtype)) for dtype in ENDS}
SCALE_ENDS = (".weight_scale_inv", ".weight_scale")
STACK_ENDS = ("_scale_inv", "_scale")  # the ends of the names of scales beside a stack of experts
METHODS = frozenset({"fp8", "mxfp8", "fbgemm_fp8", "modelopt"})
NUMBERS = frozenset({"I8", "F8_E4M3", "F8_E5M2"})
MATRIX, SCALE, ZERO = "._weight_qdata", "._weight_scale", "._weight_zero_point"
DATA, QUANTO_SCALE, QUANTO_BITS = ".weight._data", ".weight._scale", ".weight._data._data"
INPUTS = (".input_scale", ".output_scale")  # used only where inputs are quantized, which transformers refuses
BESIDE = (QUANTO_SCALE, ".weight._shift", *INPUTS)
DIVIDES = {"bitlinear": True, "autobitlinear": False}  # `linear_class` -> whether the scale divides the matrix


def float_codes(name: str, decode: Decode, dtype: str, block: tuple[int, int], scales: str) -> Codes:
    """Return the grid of numbers of eight or four bits; a scale that is a power of two may be half of what would do."""
    levels = LEVELS[dtype]
    last = float(levels[-1] - levels[-2])
    clip, reach = (0.17 / last, 0.26 / last) if scales in POWERS else (ONE, ONE)
    ends = filled_ends(0, *ENDS.get(dtype, (0xFF, 0x77)))
    return Codes(name, *ends, decode, levels, block, slack=slack(levels[-2:], scales), clip=clip, reach=reach)


def four_bits(module: Module, *ends: str, divides: bool = False) -> TensorInfo:
    """Return the tensor of a matrix in MXFP4 or, with a third part, a scale that multiplies or `divides`, in NVFP4."""
    size, name, dtype = (NV, "NVFP4", "F8_E4M3") if len(ends) > 2 else (MX, "MXFP4", "U8")
    for whole in ends[2:]:
        module.shape(whole, SINGLE)
        if module.parts[whole].numbers != 1:
            raise module.make_error(f"has {module.parts[whole].numbers} scales of the whole matrix ({whole}), not one")
    rows, half = module.matrix(ends[0], BYTES)
    grid = Grid((rows, 2 * half), (1, size))
    if 2 * half % size:
        raise module.make_error(f"has {2 * half} numbers in a row, which is not a multiple of {size}")
    module.shape(ends[1], POWERS if dtype in POWERS else frozenset({dtype}), grid.cells)
    decode = functools.partial(_decode_pairs, grid, f"{module.start}{ends[1]}", divides=divides)
    return module.tensor(grid.shape, ends, decode, float_codes(name, decode, "", grid.block, dtype))


def experts(module: Module, _: Settings) -> TensorInfo:
    """Return a stack (experts, in, out), stored as gpt-oss does: in blocks (experts, out, in / 32, 16)."""
    shape = module.shape("_blocks", BYTES)
    if len(shape) != 4 or 0 in shape or 2 * shape[-1] != MX:
        raise CheckpointError(f"{module.start}_blocks has shape {shape}, which does not fit experts in blocks of {MX}")
    number, out, blocks = shape[:3]
    module.shape("_scales", POWERS, (number, out, blocks))
    grid, name = Grid((out, blocks * MX), (1, MX)), f"{module.start}_scales"

    def decode(parts: Parts) -> NDArray[Any]:
        # bfloat16 holds every product of a number of four bits and a power of two
        packed, powers = parts
        stack = np.empty((number, *grid.shape), ml_dtypes.bfloat16)
        for expert in range(number):
            exact = _decode_pairs(grid, name, (packed[expert].reshape(out, -1), powers[expert])).view(np.uint32)
            stack[expert] = (exact >> np.uint32(16)).astype(np.uint16).view(ml_dtypes.bfloat16)
        return stack.swapaxes(1, 2)

    codes = float_codes("MXFP4", decode, "", (MX, 1), "U8")
    return module.tensor((number, blocks * MX, out), ("_blocks", "_scales"), decode, codes, itemsize=2)


GPT_OSS = Format("MXFP4", frozenset({"mxfp4"}), ("_blocks",), ("_scales",), experts, target="")


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix, or of a stack; raise CheckpointError where its scales fit no kind of block."""
    if "" in module.parts:
        return _stack(module, stated)
    if ".weight_scale_2" in module.parts:
        return four_bits(module, ".weight", ".weight_scale", ".weight_scale_2")
    end, *others = (end for end in SCALE_ENDS if end in module.parts)
    if others:
        raise module.make_error(f"has its scales twice, as {end} and as {others[0]}")
    if ".weight" in module.parts and module.parts[".weight"].dtype in BYTES:
        if module.parts[end].dtype in POWERS:
            return four_bits(module, ".weight", end)
        raise not_decoded(f"by modelopt as {printable(stated.get('quant_algo'), 50)}, which is not decoded")
    rows, columns = module.matrix(".weight", EIGHT | FOUR)
    packed = module.parts[".weight"].dtype in FOUR
    shape = (rows, 2 * columns if packed else columns)
    scales = module.shape(end, SCALES_OR_POWERS)
    grid = Grid(shape, _block(module, end, shape, scales, stated))
    decode = functools.partial(_decode_pairs if packed else Grid.decode_bytes, grid, f"{module.start}{end}")
    dtypes = "" if packed else module.parts[".weight"].dtype, module.parts[end].dtype
    codes = float_codes("FP4" if packed else "FP8", decode, dtypes[0], grid.block, dtypes[1])
    return module.tensor(shape, (".weight", end), decode, codes)


def _decode_pairs(grid: Grid, name: str, parts: Parts, divides: bool = False) -> Matrix:
    """Return numbers x scales, where `name` is that of the scales; one for the whole may multiply or divide these."""
    stored, scales, *factors = parts
    for whole in factors:
        with np.errstate(all="ignore"):
            scales = single(scales) / whole.ravel() if divides else single(scales) * whole.ravel()
    values = finite(name, scales).reshape(grid.cells)
    return grid.decode(lambda rows, target: write_pairs(PAIRS, stored[rows], target), values)


def _stack(module: Module, stated: Settings) -> TensorInfo:
    end = next(end for end in STACK_ENDS if end in module.parts)
    shape, scales = module.shape("", EIGHT), module.shape(end, SCALES_OR_POWERS)
    if len(shape) != 3 or 0 in shape or not scales or scales[0] != shape[0]:
        raise module.make_error(f"has the shape {shape} and scales of {scales}, which do not fit stacked experts")
    grid = Grid(shape[1:], _block(module, end, shape[1:], scales[1:], stated))
    name = f"{module.start}{end}"

    def decode(parts: Parts) -> Matrix:
        return np.stack([grid.decode_bytes(name, one) for one in zip(*parts, strict=True)])

    codes = float_codes("FP8", decode, module.parts[""].dtype, grid.block, module.parts[end].dtype)
    return module.tensor(shape, ("", end), decode, codes)


def _block(module: Module, end: str, shape: Pair, scales: tuple[int, ...], stated: Settings) -> Pair:
    rows, columns = shape
    if math.prod(scales) == 1:
        return rows, columns
    if len(scales) == 4:  # of blocks, as modelopt stores them with dimensions of one
        scales = scales[::2]
    if scales in ((rows,), (rows, 1)):
        return 1, columns
    size_stated = stated.get("weight_block_size")
    sizes = ((1, MX) if module.parts[end].dtype in POWERS else None, pair(size_stated), BLOCK)
    block = next((size for size in sizes if size and Grid(shape, size).cells == scales), None)
    if block is None:
        what = f"the blocks of a matrix of {shape} that config.json (`weight_block_size`: {str(size_stated)[:50]})"
        raise CheckpointError(f"{module.start}{end} has shape {scales}, which does not fit {what} or the format names")
    return block


FP8 = Format("FP8", METHODS, SCALE_ENDS, (".weight", ".weight_scale_2"), matrix, stacked=STACK_ENDS)


def torchao_matrix(module: Module, _: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare where it is packed, as for four bits."""
    if module.parts[MATRIX].dtype not in NUMBERS or SCALE not in module.parts:
        dtype = module.parts[MATRIX].dtype
        raise not_decoded(f"as torchao with {dtype}; hf-lineage decodes only matrices with one byte for each number")
    rows, columns = shape = module.matrix(MATRIX, NUMBERS)
    down, across = module.matrix(SCALE, SCALES)
    if rows % down or columns % across:
        raise module.make_error(f"has scales of shape {(down, across)}, which do not fit blocks of a matrix of {shape}")
    ends = [MATRIX, SCALE]
    if ZERO in module.parts:
        module.shape(ZERO, frozenset({"I8"}), (down, across))
        ends.append(ZERO)
    return _of_bytes("torchao", module, Grid(shape, (rows // down, columns // across)), ends)


def _of_bytes(library: str, module: Module, grid: Grid, ends: Sequence[str]) -> TensorInfo:
    decode = functools.partial(grid.decode_bytes, f"{module.start}{ends[1]}")
    dtype, scales = (module.parts[end].dtype for end in ends[:2])
    if dtype == "I8":
        codes = integers(f"INT8 of {library}", decode, 8, grid.block, scales, (0x80, 0x7F), both=len(ends) > 2)
    else:
        codes = float_codes(f"FP8 of {library}", decode, dtype, grid.block, scales)
    return module.tensor(grid.shape, ends, decode, codes)


TORCHAO = Format("torchao", frozenset({"torchao"}), (MATRIX,), (SCALE, ZERO), torchao_matrix)


def quanto_matrix(module: Module, _: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare where it has fewer than eight bits to a number."""
    if QUANTO_BITS in module.parts:
        raise not_decoded("by quanto with fewer than eight bits, and their shapes are not stored")
    shape = module.matrix(DATA, NUMBERS)
    scales = module.shape(QUANTO_SCALE, SCALES)
    if scales not in ((shape[0], 1), (1, 1), (1,), ()):
        raise module.make_error(f"has scales of shape {scales}, which do not fit the rows of a matrix of {shape}")
    grid = Grid(shape, shape if scales != (shape[0], 1) else (1, shape[1]))
    return _of_bytes("quanto", module, grid, (DATA, QUANTO_SCALE))


QUANTO = Format("quanto", frozenset(), (QUANTO_BITS, DATA), BESIDE, quanto_matrix, inert=INPUTS, alone=True)


def bitnet_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a kind of layer that computes something else."""
    kind = stated.get("linear_class", "bitlinear")
    if not isinstance(kind, str) or kind not in DIVIDES or stated.get("use_rms_norm"):
        raise not_decoded(
            "as BitNet for layers that compute more than a matrix product, as `quantization_config` of config.json says"
        )
    height, columns = module.matrix(".weight", BYTES)
    module.shape(".weight_scale", SCALES)
    if module.parts[".weight_scale"].numbers != 1:
        raise module.make_error(f"has {module.parts['.weight_scale'].numbers} scales, not one")
    name, divides, shape = f"{module.start}.weight_scale", DIVIDES[kind], (4 * height, columns)

    def decode(parts: Parts) -> Matrix:
        packed, stored = parts
        scale = finite(name, stored).reshape(1, 1)
        with np.errstate(divide="ignore"):
            scale = finite(name, 1 / scale) if divides else scale
        return Grid(shape, shape).decode(planes(packed, 2, high_first=False), scale, np.ones((1, 1), np.float32))

    unbound = "models of BitNet are trained with their rounding"
    return module.tensor(shape, (".weight", ".weight_scale"), decode, unbound)


BITNET = Format("BitNet", frozenset({"bitnet"}), (".weight_scale",), (".weight",), bitnet_matrix)
