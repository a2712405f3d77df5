"""HQQ, `scale x (integer - zero)`, and MLX, `scale x integer + bias`: integers with two numbers for each group.

HQQ reads a matrix as groups, one below the other (`axis` 1) or side by side (0). See hqq/core/{quantize,bitpack}.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Parts, integers
from hf_lineage.checkpoint.formats.grid import WORD, Grid, Matrix, across, finite, planes
from hf_lineage.checkpoint.formats.modules import BYTES, SCALES, WORDS, Format, Module, Settings, count, not_decoded
from hf_lineage.checkpoint.tensor import ByRows, TensorInfo
from hf_lineage.errors import CheckpointError, printable

BITS = {"8bit_u8": 8, "4bit_u8": 4, "2bit_u8": 2, "1bit_u8": 1, "3bit_32": 3}  # packing -> bits of an integer
DESCRIBED = (".shape", ".group_size", ".axis", ".packing", ".view_as_float")
BESIDE = (
    *(".nbits", ".compute_dtype", ".unpack_view_dtype", ".quant_scale", ".quant_zero", ".offload_meta"),
    *(".encoded_state_dict", ".stores_quant_config", ".channel_wise", ".optimize", ".round_zero"),
)  # parts that are not needed to decode the matrix
ENDS = (".scale", ".zero", *DESCRIBED, *BESIDE)
MLX_BITS = (2, 3, 4, 5, 6, 8)


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
    if packing_name not in BITS or viewed not in ([0], [False]):
        form = printable(packing_name, 50) + (" as floats" if any(viewed) else "")
        raise not_decoded(f"by HQQ with the packing {form}, which is not decoded")
    sizes = [*shape, *group]
    whole = all(type(size) is int and 0 < size < 2**31 for size in sizes) and len(shape) == 2 and len(group) == 1
    if not whole or axis not in ([0], [1]) or math.prod(shape) % group[0]:
        raise CheckpointError(f"{text} does not say its shape and its groups; have the weights saved again")
    size, groups = group[0], math.prod(shape) // group[0]
    grid = Grid((groups, size), (1, size)) if axis == [1] else Grid((size, groups), (size, 1))
    return (shape[0], shape[1]), BITS[packing_name], grid


HQQ = Format("HQQ", frozenset({"hqq"}), (".W_q",), ENDS, hqq_matrix, describing_ends=DESCRIBED, inert=BESIDE)


def mlx_matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    own = stated.get(module.start)
    stated = {**stated, **own} if isinstance(own, Mapping) else stated
    mode = stated.get("mode") or "affine"
    if mode != "affine" or (".weight" in module.parts and len(module.parts[".weight"].shape) == 3):
        what = "experts in one stack" if mode == "affine" else f"the mode {printable(str(mode), 50)}"
        raise not_decoded(f"by MLX with {what}, which is not decoded")
    bits, size = count(stated, "bits"), count(stated, "group_size")
    out, words = module.matrix(".weight", frozenset({"U32"}))
    groups = module.matrix(".scales", SCALES)[1]
    if bits not in MLX_BITS or size < 1 or words * WORD != groups * size * bits:
        what = f"{groups} groups of {size} integers of {bits} bits"
        raise module.make_error(f"is packed in {words} words per row, which do not make {what}")
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
