"""GPTQ: integers of 2, 3, 4 or 8 bits, a scale and a zero point for each group of a column's inputs.

Matrices are packed as (in, out); `g_idx` tells the group of each input. In the first version of the format, which most
repositories have, zero points are stored one too low.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Packed:
    """The packing of one matrix: its shape, bits, groups and offset of zero points."""

    name: str
    shape: tuple[int, int]
    """(in, out)."""
    bits: int
    group: int
    groups: int
    added: int


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    kind = stated.get("checkpoint_format") or ""
    if not isinstance(kind, str) or kind not in ADDED:
        raise not_decoded(f"as GPTQ in the layout {printable(str(kind), 50)}, which is not decoded")
    packed = _packed(module, stated, ADDED[kind])
    ends = (".qweight", ".qzeros", ".scales", *([".g_idx"] if ".g_idx" in module.parts else []))
    names, decoded = module.names(*ends), functools.partial(decode, packed)
    return TensorInfo(packed.shape[::-1], names, decoded, itemsize=4, codes=UNBOUND)


def decode(packed: _Packed, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return the matrix (out, in)."""
    weights, zero_points, scales, *indices = parts
    zeros = np.empty((packed.groups, packed.shape[1]), np.float32)
    across(zero_points, packed.bits)(slice(0, packed.groups), zeros)
    zeros = (zeros + packed.added) % 2**packed.bits
    grid = Grid(packed.shape, (packed.group, 1), rows=_order(packed, *indices))
    return grid.decoded(down(weights, packed.bits), finite(f"{packed.name}.scales", scales), zeros).T


def _order(packed: _Packed, indices: NDArray[Any] | None = None) -> NDArray[np.intp] | None:
    """Return the group of each input, None where groups are of inputs side by side."""
    if indices is None or np.array_equal(indices, np.arange(packed.shape[0]) // packed.group):
        return None
    if indices.min() < 0 or indices.max() >= packed.groups:
        raise CheckpointError(
            f"{packed.name}.g_idx names a group that is not among its {packed.groups}; have it saved again"
        )
    return indices.astype(np.intp)


def _packed(module: Module, stated: Settings, added: int) -> _Packed:
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
    return _Packed(module.start, (inputs, out), bits, group, groups, added)


ENDS = (".qzeros", ".scales", ".g_idx")
GPTQ = Quantized("GPTQ", frozenset({"gptq"}), (".qweight",), ENDS, matrix, linear=True)
