"""Integers with two numbers for each group: GPTQ, AWQ, AutoRound, HQQ (`scale x (integer - zero)`) and MLX (`+ bias`).

GPTQ packs words down the columns of a matrix (in, out), AWQ in the layout of its products, `gemm`, eight outputs each;
AutoRound uses both, by `packing_format` (auto_round/export/export_to_autoround/export.py). HQQ reads a matrix in groups
one below the other (`axis` 1) or side by side (0); see hqq/core/{quantize,bitpack}.py.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Parts, integers
from hf_lineage.checkpoint.formats import modules
from hf_lineage.checkpoint.formats.grid import WORD, Grid, Matrix, across, down, finite, planes, words
from hf_lineage.checkpoint.formats.modules import BYTES, INDICES, SCALES, WORDS, Format, Module, Settings, count
from hf_lineage.checkpoint.tensor import ByRows, TensorInfo
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
HQQ_BITS = {"8bit_u8": 8, "4bit_u8": 4, "2bit_u8": 2, "1bit_u8": 1, "3bit_32": 3}  # packing -> bits of an integer
DESCRIBED = (".shape", ".group_size", ".axis", ".packing", ".view_as_float")
BESIDE = (
    *(".nbits", ".compute_dtype", ".unpack_view_dtype", ".quant_scale", ".quant_zero", ".offload_meta"),
    *(".encoded_state_dict", ".stores_quant_config", ".channel_wise", ".optimize", ".round_zero"),
)  # parts that are not needed to decode the matrix
HQQ_ENDS = (".scale", ".zero", *DESCRIBED, *BESIDE)
MLX_BITS = (2, 3, 4, 5, 6, 8)


def gptq_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    kind = stated.get("checkpoint_format") or ""
    if not isinstance(kind, str) or kind not in ADDED:
        raise modules.not_decoded(f"as GPTQ in the layout {printable(str(kind), 50)}, which is not decoded")
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
        raise module.make_error(f"is packed in {height} words a column, wrong for {inputs} integers of {bits} bits")
    group = inputs if size == -1 else size
    if groups != -(-inputs // group):
        raise module.make_error(f"has scales for {groups} groups of {group}, which do not fit {inputs} inputs")
    module.shape(".scales", SCALES, (groups, out))
    module.shape(".qzeros", WORDS, (groups, words(out, bits)))
    return bits, Grid((inputs, out), (group, 1))


def awq_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare for a layout other than `gemm`."""
    layout = stated.get("version", "gemm")
    if not isinstance(layout, str) or layout.lower() != "gemm":
        raise modules.not_decoded(f"as AWQ in the layout {printable(str(layout), 50)}; hf-lineage decodes only `gemm`")
    bits, size = count(stated, "bits", AWQ_BITS), count(stated, "group_size", 128)
    if bits != AWQ_BITS:
        raise CheckpointError(f"config.json: AWQ packs integers of {AWQ_BITS} bits, and `bits` says {bits}")
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
        raise modules.not_decoded(f"by AutoRound in the layout {printable(str(packing), 50)}, which is not decoded")
    by_name = stated.get("extra_config")
    own = by_name.get(module.start) if isinstance(by_name, Mapping) else None
    settings = {**stated, **(own if isinstance(own, Mapping) else {}), **layout}
    return replace((awq_matrix if layout is GEMM else gptq_matrix)(module, settings), codes=LEARNED)


GPTQ = Format("GPTQ", frozenset({"gptq"}), MARK, ENDS, gptq_matrix, linear=True)
AWQ = Format("AWQ", frozenset({"awq"}), MARK, (".qzeros", ".scales"), awq_matrix)
AUTO_ROUND = Format("AutoRound", METHODS, MARK, ENDS, round_matrix, linear=True)


def hqq_matrix(module: Module, _: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other."""
    module.shape(".W_q", BYTES | WORDS)
    shape, bits, grid = stored = _check_stored(module.start, [module.first_parts.get(end) for end in DESCRIBED])
    rows, columns = grid.shape
    dtypes, height = (WORDS, -(-rows // 10)) if bits == 3 else (BYTES, -(-rows * bits // 8))
    module.shape(".W_q", dtypes, (height, columns))
    for end in (".scale", ".zero"):
        module.shape(end, SCALES, grid.cells)
    name = module.start

    def decode(parts: Parts) -> Matrix:
        packed, scales, zeros, *described = parts
        if _check_stored(name, described) != stored:
            raise CheckpointError(f"{name} is not stored like the matrices with this name in other layers")
        values = finite(f"{name}.scale", scales), finite(f"{name}.zero", zeros)
        return grid.decode(planes(packed, bits, high_first=True), *values).reshape(shape)

    unbound = "HQQ moves its zero points in search of a smaller error"
    return module.tensor(shape, (".W_q", ".scale", ".zero", *DESCRIBED), decode, unbound)


def _check_stored(name: str, described: Sequence[NDArray[Any] | None]) -> tuple[tuple[int, int], int, Grid]:
    """Return the shape and the bits of a matrix, and it as groups, by the checked small tensors beside it."""
    text = printable(name, 200)
    missing = next((end for end, part in zip(DESCRIBED, described, strict=True) if part is None), None)
    if missing:
        why = f"and {text} cannot be decoded without it; have it saved again"
        raise CheckpointError(f"{text}{missing} is missing, {why}")
    shape, group, axis, packing, viewed = (part.ravel().tolist() for part in described if part is not None)
    packing_name = "".join(chr(letter) for letter in packing if type(letter) is int and 0 <= letter < 128)
    if packing_name not in HQQ_BITS or viewed not in ([0], [False]):
        form = printable(packing_name, 50) + (" as floats" if any(viewed) else "")
        raise modules.not_decoded(f"by HQQ with the packing {form}, which is not decoded")
    sizes = [*shape, *group]
    whole = all(type(size) is int and 0 < size < 2**31 for size in sizes) and len(shape) == 2 and len(group) == 1
    if not whole or axis not in ([0], [1]) or math.prod(shape) % group[0]:
        raise CheckpointError(f"{text} does not say its shape and its groups; have the weights saved again")
    size, groups = group[0], math.prod(shape) // group[0]
    grid = Grid((groups, size), (1, size)) if axis == [1] else Grid((size, groups), (size, 1))
    return (shape[0], shape[1]), HQQ_BITS[packing_name], grid


HQQ = Format("HQQ", frozenset({"hqq"}), (".W_q",), HQQ_ENDS, hqq_matrix, describing_ends=DESCRIBED, inert=BESIDE)


def mlx_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    own = stated.get(module.start)
    stated = {**stated, **own} if isinstance(own, Mapping) else stated
    mode = stated.get("mode") or "affine"
    if mode != "affine" or (".weight" in module.parts and len(module.parts[".weight"].shape) == 3):
        what = "experts in one stack" if mode == "affine" else f"the mode {printable(str(mode), 50)}"
        raise modules.not_decoded(f"by MLX with {what}, which is not decoded")
    bits, size = count(stated, "bits"), count(stated, "group_size")
    out, words = module.matrix(".weight", frozenset({"U32"}))
    groups = module.matrix(".scales", SCALES)[1]
    if bits not in MLX_BITS or size < 1 or words * WORD != groups * size * bits:
        raise module.make_error(f"is packed in {words} words a row, not as {groups} x {size} integers of {bits} bits")
    for end in (".scales", ".biases"):
        module.shape(end, SCALES, (out, groups))
    names, columns = [f"{module.start}{end}" for end in (".scales", ".biases")], groups * size

    def decode(parts: Parts) -> Matrix:
        packed, scales, biases = parts
        grid = Grid((len(packed), columns), (1, size))
        whole = grid.decode(across(packed, bits), finite(names[0], scales))
        grouped = whole.reshape(*grid.cells, size)
        grouped += finite(names[1], biases)[..., None]
        return whole

    by_rows, dtype = ByRows(decode), module.parts[".scales"].dtype
    codes = integers(f"{bits} bits of MLX", by_rows, bits, (1, size), dtype, both=True)
    return module.tensor((out, columns), (".weight", ".scales", ".biases"), by_rows, codes)


MLX = Format("MLX", frozenset({"mlx"}), (".biases", ".scales"), (".weight",), mlx_matrix)
