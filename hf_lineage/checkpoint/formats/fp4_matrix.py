"""Matrices of four-bit floating-point numbers with a scale for each few of a row: MXFP4 and NVFP4.

MXFP4 has a power of two for 32 numbers each, NVFP4 an eight-bit number for 16 each, and one more for the whole matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings
from hf_lineage.checkpoint.formats.packing import PAIRS, exponents, write_pairs
from hf_lineage.checkpoint.numbers import single
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError

BYTES, POWERS, SMALL, SINGLE = (
    frozenset({"U8"}),
    frozenset({"U8", "F8_E8M0"}),
    frozenset({"F8_E4M3"}),
    frozenset({"F32"}),
)
MX, NV = 32, 16
"""Numbers that share a scale."""


def mxfp4(module: Module, packed: str, scales: str) -> TensorInfo:
    """Return the tensor of a matrix in MXFP4, from its parts by their ends; CheckpointError if they do not fit."""
    return _matrix(module, (packed, scales), MX, POWERS, _powers)


def nvfp4(module: Module, packed: str, scales: str, whole: str, divides: bool) -> TensorInfo:
    """Return the tensor of a matrix in NVFP4; the scale of the `whole` multiplies the others or `divides` them."""
    module.shape(whole, SINGLE)
    if module.parts[whole].numbers != 1:
        raise module.damaged(f"has {module.parts[whole].numbers} scales of the whole matrix ({whole}), not one")
    return _matrix(module, (packed, scales, whole), NV, SMALL, functools.partial(_two_scales, divides))


def _matrix(module: Module, ends: tuple[str, ...], size: int, kinds: frozenset[str], scaled: Any) -> TensorInfo:
    rows, half = module.matrix(ends[0], BYTES)
    grid = Grid((rows, 2 * half), (1, size))
    if 2 * half % size:
        raise module.damaged(f"has {2 * half} numbers in a row, which is not a multiple of {size}")
    module.shape(ends[1], kinds, grid.cells)
    names = module.names(*ends)
    return TensorInfo(grid.shape, names, functools.partial(_decode, grid, names[1], scaled), itemsize=4)


def _powers(stored: NDArray[Any]) -> NDArray[np.float32]:
    return exponents(stored)


def _two_scales(divides: bool, stored: NDArray[Any], whole: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        scales: NDArray[np.float32] = single(stored) / whole.ravel() if divides else single(stored) * whole.ravel()
    return scales


def _decode(grid: Grid, name: str, scaled: Any, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    packed, *scales = parts

    def unpack(rows: slice, target: NDArray[np.float32]) -> None:
        write_pairs(PAIRS, packed[rows], target)

    return grid.decoded(unpack, finite(name, scaled(*scales)))


def experts(module: Module, stated: Settings) -> TensorInfo:
    """Return a stack (experts, in, out), stored as gpt-oss does: in blocks (experts, out, in / 32, 16)."""
    del stated
    shape = module.shape("_blocks", BYTES)
    if len(shape) != 4 or 0 in shape or 2 * shape[-1] != MX:
        raise CheckpointError(f"{module.start}_blocks has shape {shape}, which does not fit experts in blocks of {MX}")
    number, out, blocks, _ = shape
    module.shape("_scales", POWERS, (number, out, blocks))
    names = module.names("_blocks", "_scales")
    return TensorInfo((number, blocks * MX, out), names, functools.partial(_decode_experts, names[1]), itemsize=2)


def _decode_experts(name: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The stack in bfloat16, which holds every product of a number of four bits and a power of two."""
    packed, powers = parts
    number, out, blocks, half = packed.shape
    scales = finite(name, exponents(powers)).reshape(number, out, blocks)
    stack = np.empty((number, out, blocks * MX), ml_dtypes.bfloat16)
    grid = Grid((out, blocks * MX), (1, MX))
    for expert in range(number):
        rows = packed[expert].reshape(out, blocks * half)

        def unpack(some: slice, target: NDArray[np.float32], rows: NDArray[Any] = rows) -> None:
            write_pairs(PAIRS, rows[some], target)

        exact = grid.decoded(unpack, scales[expert]).view(np.uint32)
        stack[expert] = (exact >> np.uint32(16)).astype(np.uint16).view(ml_dtypes.bfloat16)
    return stack.swapaxes(1, 2)


GPT_OSS = Quantized("MXFP4", frozenset({"mxfp4"}), ("_blocks",), ("_scales",), experts, target="")
