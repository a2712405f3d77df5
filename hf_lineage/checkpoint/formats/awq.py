"""AWQ in the layout of its matrix products, `gemm`: integers of 4 bits packed as (in, out), eight outputs to a word.

AutoRound uses the layouts of GPTQ and AWQ; `packing_format` of config.json says which one a matrix has. Source:
auto_round/export/export_to_autoround/export.py and the layers that it packs with.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats import gptq
from hf_lineage.checkpoint.formats.grid import Grid, across, finite
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings, count, not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable

INTEGERS, FLOATS = frozenset({"I32"}), frozenset({"F16", "BF16", "F32"})
BITS, TO_A_WORD = 4, 8
UNBOUND = (
    "AWQ multiplies the inputs of a matrix by factors and divides what stands in front by them; no matrix holds the "
    "base's numbers"
)
"""Why no bound holds for each number."""
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The outputs of a word, from its lowest bits to its highest."""


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout other than `gemm`."""
    layout = stated.get("version", "gemm")
    if not isinstance(layout, str) or layout.lower() != "gemm":
        raise not_decoded(f"as AWQ in the layout {printable(str(layout), 50)}; hf-lineage decodes only `gemm`")
    bits, size = count(stated, "bits", BITS), count(stated, "group_size", 128)
    if bits != BITS:
        raise CheckpointError(
            f"config.json: AWQ packs integers of {BITS} bits, and `bits` of quantization_config says {bits}"
        )
    inputs, width = module.matrix(".qweight", INTEGERS)
    shape = inputs, TO_A_WORD * width
    grid = Grid(shape, (inputs if size == -1 else size, 1))
    module.shape(".scales", FLOATS, grid.cells)
    ends = (".qweight", ".scales", *([".qzeros"] if stated.get("zero_point", True) else []))
    if ".qzeros" in ends:
        module.shape(".qzeros", INTEGERS, (grid.cells[0], width))
    names = module.names(*ends)
    return TensorInfo(shape[::-1], names, functools.partial(decode, grid, names[1]), itemsize=4, codes=UNBOUND)


def decode(grid: Grid, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix (out, in), where `name` is that of the scales; without zero points they are in the middle."""
    weights, scales, *zero_points = parts
    zeros = np.full(grid.cells, 2 ** (BITS - 1), np.float32)
    for stored in zero_points:
        across(stored, BITS, ORDER)(slice(0, len(zeros)), zeros)
    return grid.decoded(across(weights, BITS, ORDER), finite(name, scales), zeros).T


AWQ = Quantized("AWQ", frozenset({"awq"}), (".qweight",), (".qzeros", ".scales"), matrix)

LESS_ONE, IN_FULL = {"checkpoint_format": "gptq"}, {"checkpoint_format": "gptq_v2"}
GEMM = {"version": "gemm", "zero_point": True}
PACKINGS: Mapping[str, Mapping[str, Any]] = {
    "auto_round:auto_gptq": LESS_ONE,
    "auto_round:gptq": LESS_ONE,
    "auto_round": IN_FULL,
    "auto_round:exllamav2": IN_FULL,
    "auto_round:gptqmodel": IN_FULL,
    "auto_round:auto_awq": GEMM,
    "auto_round:awq": GEMM,
}
"""The layout of a matrix by `packing_format`, in the words of GPTQ (how zero points are stored) and AWQ."""
USUAL = "auto_round:auto_gptq"


def round_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout that is not decoded."""
    packing = stated.get("packing_format") or stated.get("backend") or USUAL
    layout = PACKINGS.get(packing) if isinstance(packing, str) else None
    if layout is None:
        raise not_decoded(f"by AutoRound in the layout {printable(str(packing), 50)}, which is not decoded")
    own = stated.get("extra_config")
    own = own.get(module.start) if isinstance(own, Mapping) else None
    settings = {**stated, **(own if isinstance(own, Mapping) else {}), **layout}
    rounded = matrix(module, settings) if layout is GEMM else gptq.matrix(module, settings)
    return replace(rounded, codes="AutoRound learns which way each number is rounded")


METHODS = frozenset({"auto-round", "intel/auto-round"})
AUTO_ROUND = Quantized("AutoRound", METHODS, (".qweight",), gptq.ENDS, round_matrix, linear=True)
