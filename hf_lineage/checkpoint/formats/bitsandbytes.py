"""bitsandbytes: matrices of four bits (NF4 and FP4, their scales perhaps quantized in turn), and of eight.

The numbers of a matrix of four bits are packed one after another, without its shape; that is in JSON beside it.
"""

import functools
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, Pair, Parts, ScaleStep, filled_ends, step_part, table, uniform
from hf_lineage.checkpoint.formats.grid import CODES, NF4, Grid, Matrix, finite, pairs, write_pairs
from hf_lineage.checkpoint.formats.modules import BYTES, SINGLE, Format, Module, Settings
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError

PACKED = BYTES | {"BF16", "F16", "F32"}  # `bnb_4bit_quant_storage` gives packed bytes such types; bits are the same
ENDS = {"nf4": (0x00, 0xFF), "fp4": (0xBB, 0x33)}  # bytes that hold the least number twice, and the largest
STATES = {f".weight.quant_state.bitsandbytes__{kind}": kind for kind in CODES}
NESTED = (".weight.nested_absmax", ".weight.nested_quant_map")
METHODS = frozenset({"bitsandbytes"})
PARTS = (".weight", ".weight.absmax", ".weight.quant_map", *NESTED)
TYPE = ".weight_format"


def four_bits(module: Module, _: Settings) -> TensorInfo:
    """Return the tensor of one matrix of four bits; raise CheckpointError where its parts do not fit its shape."""
    end = next(end for end in STATES if end in module.parts)
    shape, block, nested_block = _state(module.start, module.first_parts[end])[:3]
    numbers = math.prod(shape)
    module.shape(".weight", PACKED)
    if module.parts[".weight"].size != -(-numbers // 2):
        raise module.make_error(f"does not hold as many numbers as its shape {shape} needs")
    blocks = -(-numbers // block)
    ends = [end, ".weight", ".weight.absmax", ".weight.quant_map"]
    module.shape(".weight.absmax", BYTES if nested_block else SINGLE, (blocks,))
    module.shape(".weight.quant_map", SINGLE, (len(NF4),))
    steps: tuple[ScaleStep, ...] = ()
    if nested_block:
        module.shape(NESTED[0], SINGLE, (-(-blocks // nested_block),))
        module.shape(NESTED[1], SINGLE, (256,))
        ends += NESTED
        # Two steps of a nested scale are at most so much beside the widest grid of its blocks.
        steps = (ScaleStep((step_part(2, -1), step_part(2, 1)), 0.06, block * nested_block),)
    kind = STATES[end]
    decode = functools.partial(_decode_four_bits, module.start, kind, (shape, block, nested_block))
    name, low_high, levels = f"{kind.upper()} of bitsandbytes", filled_ends(1, *ENDS[kind]), table(CODES[kind])
    codes = Codes(name, *low_high, decode, levels, (1, block), steps=steps, early=True, flat=True)
    return module.tensor(shape, ends, decode, codes)


def _decode_four_bits(name: str, kind: str, sizes: tuple[Pair, int, int], parts: Parts) -> Matrix:
    (shape, block, nested_block), (stored, packed, scales, code, *nested) = sizes, parts
    *own_sizes, offset = _state(name, stored)
    if tuple(own_sizes) != sizes:
        raise CheckpointError(f"{name} has another shape or other blocks than matrices of this name in other layers")
    if not np.allclose(code, CODES[kind], rtol=0, atol=1e-6):  # but for rounding
        raise CheckpointError(f"{name}.weight.quant_map is not the code of {kind}; have the weights saved again")
    if nested:
        each, levels = (finite(f"{name}{end}", part) for end, part in zip(NESTED, nested, strict=True))
        with np.errstate(over="ignore"):
            by_block = np.repeat(each, nested_block)[: len(scales)]
            scales = levels[scales] * by_block + np.float32(offset)
    table, half = pairs(False, *CODES[kind]), block // 2
    whole = np.zeros((len(scales), half), np.uint8)
    whole.reshape(-1)[: packed.nbytes] = packed.reshape(-1).view(np.uint8)
    grid, factors = Grid((len(scales), block), (1, block)), finite(f"{name}.weight.absmax", scales)
    decoded = grid.decode(lambda rows, target: write_pairs(table, whole[rows], target), factors[:, None])
    return decoded.reshape(-1)[: math.prod(shape)].reshape(shape)


def _state(name: str, stored: NDArray[Any]) -> tuple[Pair, int, int, float]:
    """Return shape, numbers that share a scale, scales that share one in turn (0 if none do), and what is added."""
    try:
        content = json.loads(stored.tobytes())
        (rows, columns), block = content["shape"], content["blocksize"]
        nested, offset = content.get("nested_blocksize") or 0, float(content.get("nested_offset") or 0)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        rows, columns, block, nested, offset = (0,) * 5
    sizes = (rows, columns, block, nested or 1)
    if not all(type(size) is int and 0 < size < 2**31 for size in sizes) or block % 2 or not math.isfinite(offset):
        raise CheckpointError(f"{name}.weight.quant_state does not give shape and blocks; have it saved again")
    return (rows, columns), block, nested, offset


def eight_bits(module: Module, _: Settings) -> TensorInfo:
    """Return the tensor of one matrix of eight bits; raise CheckpointError where its scales do not fit it."""
    shape, name = module.matrix(".weight", frozenset({"I8"})), f"{module.start}.SCB"
    module.shape(".SCB", SINGLE, (shape[0],))

    def decode(parts: Parts) -> Matrix:
        stored, scales = parts
        values = finite(name, scales) * np.float32(1 / 127)  # 127 stands for the largest number of a row
        return Grid(shape, (1, shape[1])).decode_bytes(name, (stored, values))

    # The library rounds a matrix to float16, and scales it in that, before it rounds it: a slack of 0.3 steps.
    codes = Codes("INT8 of bitsandbytes", *filled_ends(0, 0x80, 0x7F), decode, uniform(256), (1, shape[1]), slack=0.3)
    return module.tensor(shape, (".weight", ".SCB"), decode, codes)


FOUR_BITS = Format("bitsandbytes, 4 bits", METHODS, (*STATES,), PARTS, four_bits, (*STATES,), linear=True)
EIGHT_BITS = Format("bitsandbytes, 8 bits", METHODS, (".SCB",), (".weight", TYPE), eight_bits, (), (TYPE,), linear=True)
