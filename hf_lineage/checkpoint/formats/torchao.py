"""torchao, optimum-quanto and BitNet: matrices of a byte or less to a number, with a scale for each row or for all."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from hf_lineage.checkpoint.codes import Parts, integers
from hf_lineage.checkpoint.formats.fp8 import float_codes
from hf_lineage.checkpoint.formats.grid import Grid, Matrix, finite, planes
from hf_lineage.checkpoint.formats.modules import BYTES, SCALES, Format, Module, Settings, not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo

NUMBERS = frozenset({"I8", "F8_E4M3", "F8_E5M2"})
MATRIX, SCALE, ZERO = "._weight_qdata", "._weight_scale", "._weight_zero_point"
DATA, QUANTO_SCALE, BITS = ".weight._data", ".weight._scale", ".weight._data._data"
INPUTS = (".input_scale", ".output_scale")  # used only where inputs are quantized, which transformers refuses
BESIDE = (QUANTO_SCALE, ".weight._shift", *INPUTS)
DIVIDES = {"bitlinear": True, "autobitlinear": False}  # `linear_class` -> whether the scale divides the matrix


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
    if BITS in module.parts:
        raise not_decoded("by quanto with fewer than eight bits, and their shapes are not stored")
    shape = module.matrix(DATA, NUMBERS)
    scales = module.shape(QUANTO_SCALE, SCALES)
    if scales not in ((shape[0], 1), (1, 1), (1,), ()):
        raise module.make_error(f"has scales of shape {scales}, which do not fit the rows of a matrix of {shape}")
    grid = Grid(shape, shape if scales != (shape[0], 1) else (1, shape[1]))
    return _of_bytes("quanto", module, grid, (DATA, QUANTO_SCALE))


QUANTO = Format("quanto", frozenset(), (BITS, DATA), BESIDE, quanto_matrix, inert=INPUTS, alone=True)


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
