"""The tensors of a foreign file by their names on the Hub's disk, with what a converter did to them undone."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.registry import slots
from hf_lineage.architecture.schema import Factorization, as_sets
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo, single
from hf_lineage.errors import CheckpointError, NothingToCompare, printable

Undo = Literal["rotated", "plus_one", "transposed", "by_role"]
"""The changes that a converter makes to a tensor on the way from the Hub's disk into a file."""
KEYS = re.compile(r"\.(attn_k|wk)\.")
"""In the name of a matrix that makes keys."""
MOST_HEADS = 2**16


@dataclass(frozen=True)
class Heads:
    """The numbers of query heads, and of key/value heads, of a layer."""

    query: int
    key_value: int


ONE_HEAD = Heads(1, 1)


@dataclass(frozen=True)
class Piece:
    """A tensor of the model, or one of several that a converter joined."""

    name: str
    """Its name on the Hub's disk."""
    stored: str
    """The name of the tensor in the file that holds it."""
    rows: tuple[int, int] | None = None
    """Its first row in the stored tensor, and the row behind its last; None for all rows."""
    turned: bool = False
    """Whether transformers stores it transposed, as (in, out)."""
    undo: Undo | None = None
    """The other changes that the converter made to it."""


def by_pieces(
    plain: Checkpoint, pieces: Iterable[Piece], heads: Callable[[str], Heads] = lambda _stored: ONE_HEAD
) -> Checkpoint:
    """Return a checkpoint by the names on the Hub's disk, given a function from a stored name to its layer's heads."""
    tensors: dict[str, TensorInfo] = {}
    for piece in pieces:
        if piece.name in tensors:
            raise CheckpointError(f"two tensors of the file are {printable(piece.name, 200)}; do not trust it")
        info = plain.tensors[piece.stored]
        if piece.rows is not None:
            start, stop = piece.rows
            info = _change(info, operator.itemgetter(slice(start, stop)), (stop - start, *info.shape[1:]))
        if piece.turned:
            info = _change(info, np.transpose, info.shape[::-1])
        if piece.undo:
            info = revert(piece.undo, piece.stored, info, heads(piece.stored))
        tensors[piece.name] = info
    return plain.with_tensors(tensors)


def _change(
    info: TensorInfo, change: Callable[[NDArray[Any]], NDArray[Any]], shape: tuple[int, ...] | None = None
) -> TensorInfo:
    """Return a tensor that is changed after it is decoded."""
    return replace(
        info,
        shape=info.shape if shape is None else shape,
        decode=lambda parts: change(info.decode(parts)),
        itemsize=info.itemsize or 4,
    )


def name_in_out(factorization: Factorization) -> frozenset[str]:
    """Return the names, relative to the layer, of the matrices that transformers stores as (in, out)."""
    branches = (factorization.branches.mlp, factorization.branches.attention)
    stored = (slot for sets in branches for matrices in as_sets(sets) for slot in slots(matrices))
    return frozenset(slot.tensor for slot in stored if slot.transposed != (factorization.stored == "in_out"))


def split_rows(rows: int, heads: int, groups: int) -> Iterator[tuple[int, int]]:
    """Yield the rows of queries, keys and values in a matrix; raise NothingToCompare where the heads do not fit.

    >>> list(split_rows(24, 4, 1))
    [(0, 16), (16, 20), (20, 24)]
    """
    total = heads + 2 * groups
    if not 0 < groups <= heads <= MOST_HEADS or rows % total:
        raise NothingToCompare(f"queries, keys and values: {rows} rows do not make {heads} heads and 2 times {groups}")
    size = rows // total
    ends = (0, heads * size, (heads + groups) * size, rows)
    yield from itertools.pairwise(ends)


def strip_common_prefix(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return tensors by their names without the prefix of all names, which exporters that wrap a model leave.

    >>> strip_common_prefix({"inner.encoder.layer.0.weight": (2, 2), "inner.embeddings.weight": (2, 2)}).keys()
    dict_keys(['encoder.layer.0.weight', 'embeddings.weight'])
    """
    columns = zip(*(name.split(".")[:-1] for name in shapes), strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
    return {name.split(".", common)[-1]: shape for name, shape in shapes.items()}


def revert(undo: Undo, name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """Return a tensor without a change that a converter made, given its name in the file and its layer's heads."""
    match undo:
        case "rotated":
            return _change(info, operator.itemgetter(_rotary_order(name, info.shape[0], heads)))
        case "by_role":
            return _change(info, operator.itemgetter(_order_by_head(name, info.shape[0], heads)))
        case "plus_one" if name.endswith(".weight"):  # the file stores a gain in full, transformers less one
            return _change(info, lambda tensor: single(tensor) - 1)
        case "transposed" if name.endswith(".weight") and len(info.shape) == 2:
            return _change(info, np.transpose, info.shape[::-1])
    return info


def _rotary_order(name: str, rows: int, heads: Heads) -> NDArray[np.intp]:
    """Return the rows of a matrix whose rotary pairs are neighbours, as in llama.cpp, as halves of each head."""
    count = heads.key_value if KEYS.search(name) else heads.query
    if rows % (2 * count):
        raise CheckpointError(
            f"{printable(name, 200)} has {rows} rows, which do not make {count} heads; do not trust the file"
        )
    return np.arange(rows).reshape(count, rows // count // 2, 2).swapaxes(1, 2).reshape(-1)


def _order_by_head(name: str, rows: int, heads: Heads) -> NDArray[np.intp]:
    """Return rows by key/value head, as transformers has them; the file has all queries, then all keys, all values."""
    groups, share = heads.key_value, heads.query // heads.key_value
    size = rows // (groups * (share + 2))
    if heads.query % groups or size * groups * (share + 2) != rows:
        raise CheckpointError(f"{printable(name, 200)} has {rows} rows, which do not fit {heads}; do not trust it")
    parts = np.split(np.arange(rows), [heads.query * size, (heads.query + groups) * size])
    return np.concatenate([part.reshape(groups, -1) for part in parts], axis=1).reshape(-1)
