"""GPTQ: integers of 2, 3, 4 or 8 bits, a scale and a zero point for each group of a column's inputs.

Matrices are packed as (in, out); `g_idx` tells the group of each input. In the first version of the format, which most
repositories have, zero points are stored one too low.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.grid import WORD, Grid, across, down, finite, words
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings, count, not_decoded
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable

INTEGERS, FLOATS, INDICES = frozenset({"I32"}), frozenset({"F16", "BF16", "F32"}), frozenset({"I32", "I64"})
BITS = (2, 3, 4, 8)
UNBOUND = (
    "GPTQ minimises the error of what a matrix writes over calibration data, and rounds many numbers away "
    "from the nearest value for that"
)
"""Why no bound holds for each number."""
ADDED = {"": 1, "gptq": 1, "gptq_v2": 0}
"""Value of `checkpoint_format` -> the number that is added to the stored zero points."""


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    kind = stated.get("checkpoint_format") or ""
    if not isinstance(kind, str) or kind not in ADDED:
        raise not_decoded(f"as GPTQ in the layout {printable(str(kind), 50)}, which is not decoded")
    bits, grid = _packed(module, stated)
    ends = (".qweight", ".qzeros", ".scales", *([".g_idx"] if ".g_idx" in module.parts else []))
    decoded = functools.partial(decode, module.start, grid, bits, ADDED[kind])
    return TensorInfo(grid.shape[::-1], module.names(*ends), decoded, itemsize=4, codes=UNBOUND)


def decode(name: str, grid: Grid, bits: int, added: int, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix (out, in), given its blocks (in, out) without their order."""
    weights, zero_points, scales, *indices = parts
    zeros = np.empty(grid.cells, np.float32)
    across(zero_points, bits)(slice(0, len(zeros)), zeros)
    zeros = (zeros + added) % 2**bits
    ordered = replace(grid, rows=_order(name, grid, *indices))
    return ordered.decoded(down(weights, bits), finite(f"{name}.scales", scales), zeros).T


def _order(name: str, grid: Grid, indices: NDArray[Any] | None = None) -> NDArray[np.intp] | None:
    """Return the group of each input, None where groups are of inputs side by side."""
    if indices is None or np.array_equal(indices, np.arange(grid.shape[0]) // grid.block[0]):
        return None
    groups = grid.cells[0]
    if indices.min() < 0 or indices.max() >= groups:
        raise CheckpointError(f"{name}.g_idx names a group that is not among its {groups}; have it saved again")
    return indices.astype(np.intp)


def _packed(module: Module, stated: Settings) -> tuple[int, Grid]:
    """Return the bits of a matrix, and its blocks (in, out)."""
    height, out = module.matrix(".qweight", INTEGERS)
    groups = module.matrix(".scales", FLOATS)[0]
    bits, size = count(stated, "bits"), count(stated, "group_size", 128)
    inputs = height * WORD // bits if bits in BITS else 0
    if ".g_idx" in module.parts:
        (inputs,) = module.shape(".g_idx", INDICES, (module.parts[".g_idx"].numbers,))
        if stated.get("dynamic"):  # some matrices have other bits, and groups of another size
            bits = height * WORD // inputs if inputs else 0
            size = -(-inputs // groups)
    if bits not in BITS or not inputs or words(inputs, bits) != height:
        raise module.damaged(
            f"is packed in {height} words a column, too few or many for {inputs} integers of {bits} bits"
        )
    group = inputs if size == -1 else size
    if groups != -(-inputs // group):
        raise module.damaged(
            f"has scales for {groups} groups, where {inputs} inputs in groups of {group} need another number"
        )
    module.shape(".scales", FLOATS, (groups, out))
    module.shape(".qzeros", INTEGERS, (groups, words(out, bits)))
    return bits, Grid((inputs, out), (group, 1))


ENDS = (".qzeros", ".scales", ".g_idx")
GPTQ = Quantized("GPTQ", frozenset({"gptq"}), (".qweight",), ENDS, matrix, linear=True)
