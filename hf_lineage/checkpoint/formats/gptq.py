"""GPTQ, AWQ and AutoRound: integers in words, a scale and a zero point for each group of a column's inputs.

Matrices are packed as (in, out): by GPTQ down the columns, by AWQ in the layout of its matrix products, `gemm`, eight
outputs to a word. AutoRound uses both; `packing_format` says which (auto_round/export/export_to_autoround/export.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hf_lineage.checkpoint.codes import Parts
from hf_lineage.checkpoint.formats.grid import WORD, Grid, Matrix, across, down, finite, words
from hf_lineage.checkpoint.formats.modules import INDICES, SCALES, WORDS, Format, Module, Settings, count, not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable

BITS = (2, 3, 4, 8)
BY_CALIBRATION = "GPTQ minimises the error over calibration data, and rounds many numbers away from the nearest value"
BY_FACTORS = "AWQ multiplies the inputs of a matrix by factors, so that no matrix holds the base's numbers"
LEARNED = "AutoRound learns which way each number is rounded"  # why no bound holds for each number
ADDED = {"": 1, "gptq": 1, "gptq_v2": 0}  # value of `checkpoint_format` -> what is added to the stored zero points
AWQ_BITS, TO_A_WORD = 4, 8
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the outputs of a word of AWQ, from its lowest bits to its highest
LESS_ONE, IN_FULL = {"checkpoint_format": "gptq"}, {"checkpoint_format": "gptq_v2"}
GEMM = {"version": "gemm", "zero_point": True}
PACKINGS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("auto_round:auto_gptq", "auto_round:gptq"), LESS_ONE),
    **dict.fromkeys(("auto_round", "auto_round:exllamav2", "auto_round:gptqmodel"), IN_FULL),
    **dict.fromkeys(("auto_round:auto_awq", "auto_round:awq"), GEMM),
}  # the layout of a matrix by `packing_format`, in the words of GPTQ (how zero points are stored) and AWQ
MARK, ENDS = (".qweight",), (".qzeros", ".scales", ".g_idx")
METHODS = frozenset({"auto-round", "intel/auto-round"})


def gptq_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    kind = stated.get("checkpoint_format") or ""
    if not isinstance(kind, str) or kind not in ADDED:
        raise not_decoded(f"as GPTQ in the layout {printable(str(kind), 50)}, which is not decoded")
    (bits, grid), name, added = _read_grid(module, stated), module.start, ADDED[kind]

    def decode(parts: Parts) -> Matrix:
        weights, zero_points, scales, *order = parts
        blocks, zeros = grid, np.empty(grid.cells, np.float32)
        across(zero_points, bits)(slice(0, len(zeros)), zeros)
        zeros = (zeros + added) % 2**bits
        for groups in order:
            if np.array_equal(groups, np.arange(grid.shape[0]) // grid.block[0]):
                continue
            if groups.min() < 0 or groups.max() >= len(zeros):
                count = len(zeros)
                raise CheckpointError(f"{name}.g_idx names a group that is not among its {count}; have it saved again")
            blocks = replace(grid, rows=groups.astype(np.intp))
        return blocks.decode(down(weights, bits), finite(f"{name}.scales", scales), zeros).T

    ends = (".qweight", ".qzeros", ".scales", *([".g_idx"] if ".g_idx" in module.parts else []))
    return module.tensor(grid.shape[::-1], ends, decode, BY_CALIBRATION)


def _read_grid(module: Module, stated: Settings) -> tuple[int, Grid]:
    """Return the bits of a matrix, and its blocks (in, out)."""
    height, out = module.matrix(".qweight", WORDS)
    groups = module.matrix(".scales", SCALES)[0]
    bits, size = count(stated, "bits"), count(stated, "group_size", 128)
    inputs = height * WORD // bits if bits in BITS else 0
    if ".g_idx" in module.parts:
        (inputs,) = module.shape(".g_idx", INDICES, (module.parts[".g_idx"].numbers,))
        if stated.get("dynamic"):  # some matrices have other bits, and groups of another size
            bits = height * WORD // inputs if inputs else 0
            size = -(-inputs // groups)
    if bits not in BITS or not inputs or words(inputs, bits) != height:
        what = f"{height} words a column, too few or many for {inputs} integers of {bits} bits"
        raise module.make_error(f"is packed in {what}")
    group = inputs if size == -1 else size
    if groups != -(-inputs // group):
        what = f"{inputs} inputs in groups of {group} need another number"
        raise module.make_error(f"has scales for {groups} groups, where {what}")
    module.shape(".scales", SCALES, (groups, out))
    module.shape(".qzeros", WORDS, (groups, words(out, bits)))
    return bits, Grid((inputs, out), (group, 1))


def awq_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout other than `gemm`."""
    layout = stated.get("version", "gemm")
    if not isinstance(layout, str) or layout.lower() != "gemm":
        raise not_decoded(f"as AWQ in the layout {printable(str(layout), 50)}; hf-lineage decodes only `gemm`")
    bits, size = count(stated, "bits", AWQ_BITS), count(stated, "group_size", 128)
    if bits != AWQ_BITS:
        what = f"integers of {AWQ_BITS} bits, and `bits` of quantization_config says {bits}"
        raise CheckpointError(f"config.json: AWQ packs {what}")
    inputs, width = module.matrix(".qweight", WORDS)
    grid = Grid((inputs, TO_A_WORD * width), (inputs if size == -1 else size, 1))
    module.shape(".scales", SCALES, grid.cells)
    ends = [".qweight", ".scales"]
    if stated.get("zero_point", True):
        module.shape(".qzeros", WORDS, (grid.cells[0], width))
        ends.append(".qzeros")
    name = f"{module.start}.scales"

    def decode(parts: Parts) -> Matrix:
        weights, scales, *zero_points = parts
        zeros = np.full(grid.cells, 2 ** (AWQ_BITS - 1), np.float32)  # without zero points they are in the middle
        for stored in zero_points:
            across(stored, AWQ_BITS, ORDER)(slice(0, len(zeros)), zeros)
        return grid.decode(across(weights, AWQ_BITS, ORDER), finite(name, scales), zeros).T

    return module.tensor(grid.shape[::-1], ends, decode, BY_FACTORS)


def round_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout that is not decoded."""
    packing = stated.get("packing_format") or stated.get("backend") or "auto_round:auto_gptq"
    layout = PACKINGS.get(packing) if isinstance(packing, str) else None
    if layout is None:
        raise not_decoded(f"by AutoRound in the layout {printable(str(packing), 50)}, which is not decoded")
    by_name = stated.get("extra_config")
    own = by_name.get(module.start) if isinstance(by_name, Mapping) else None
    settings = {**stated, **(own if isinstance(own, Mapping) else {}), **layout}
    return replace((awq_matrix if layout is GEMM else gptq_matrix)(module, settings), codes=LEARNED)


GPTQ = Format("GPTQ", frozenset({"gptq"}), MARK, ENDS, gptq_matrix, linear=True)
AWQ = Format("AWQ", frozenset({"awq"}), MARK, (".qzeros", ".scales"), awq_matrix)
AUTO_ROUND = Format("AutoRound", METHODS, MARK, ENDS, round_matrix, linear=True)
