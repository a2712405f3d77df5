"""What llama.cpp's converter does to tensors on the way from the Hub's disk into a GGUF file, and how it is undone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.checkpoint.numbers import single
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable

KEYS = re.compile(r"\.(attn_k|wk)\.")
"""In the name of a matrix that makes keys."""


@dataclass(frozen=True)
class Heads:
    """How many heads of queries, and of keys and values, a layer has."""

    query: int
    key_value: int


def _rotated(name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """Where neighbours are rotated, as by llama.cpp, and not halves of a head, its rows are put back in order."""
    count = heads.key_value if KEYS.search(name) else heads.query
    rows = info.shape[0]
    if rows % (2 * count):
        raise CheckpointError(
            f"{printable(name, 200)} has {rows} rows, which are not {count} heads; do not trust the file"
        )
    order = np.arange(rows).reshape(count, rows // count // 2, 2).swapaxes(1, 2).reshape(-1)
    return replace(info, decode=lambda parts: info.decode(parts)[order], itemsize=4)


def _plus_one(name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """Gains are stored in full, where transformers has them less one."""
    del heads
    if not name.endswith(".weight"):
        return info
    return replace(info, decode=lambda parts: single(info.decode(parts)) - 1, itemsize=4)


def _transposed(name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """Matrices are stored as (out, in), where transformers has them as (in, out)."""
    del heads
    if not name.endswith(".weight") or len(info.shape) != 2:
        return info
    return replace(info.turned(), itemsize=4)


def _by_role(name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """All queries, all keys and all values follow one another, where transformers has them by key/value head."""
    groups, share = heads.key_value, heads.query // heads.key_value
    rows = info.shape[0]
    size = rows // (groups * (share + 2))
    if heads.query % groups or size * groups * (share + 2) != rows:
        raise CheckpointError(f"{printable(name, 200)} has {rows} rows, which are not {heads}; do not trust the file")
    numbers = np.arange(rows)
    queries, keys, values = np.split(numbers, [heads.query * size, (heads.query + groups) * size])
    by_head = (queries.reshape(groups, share * size), keys.reshape(groups, size), values.reshape(groups, size))
    order = np.concatenate(by_head, axis=1).reshape(-1)
    return replace(info, decode=lambda parts: info.decode(parts)[order], itemsize=4)


UNDO: Mapping[str, Callable[[str, TensorInfo, Heads], TensorInfo]] = {
    "rotated": _rotated,
    "plus_one": _plus_one,
    "transposed": _transposed,
    "by_role": _by_role,
}
"""What llama.cpp's converter does to a tensor -> how that is undone."""
