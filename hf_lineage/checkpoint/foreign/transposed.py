"""The tensors of a converted model by their names on the Hub's disk, turned, and taken apart where they were joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import Decode, TensorInfo
from hf_lineage.errors import CheckpointError, printable


class Piece(Protocol):
    """A tensor of the model, or one of several that a converter joined."""

    @property
    def name(self) -> str:
        """Its name on the Hub's disk."""

    @property
    def stored(self) -> str:
        """The name of what holds it."""

    @property
    def rows(self) -> tuple[int, int] | None:
        """The first row of its own and the one behind its last; None for all of them."""

    @property
    def turned(self) -> bool:
        """Whether transformers has it the other way around, as (in, out)."""


def by_pieces(plain: Checkpoint, pieces: Iterable[Piece]) -> Checkpoint:
    """Return a checkpoint by the names on the Hub's disk; raise CheckpointError where two tensors have one name."""
    tensors: dict[str, TensorInfo] = {}
    for piece in pieces:
        if piece.name in tensors:
            raise CheckpointError(f"two tensors of the file are {printable(piece.name, 200)}; do not trust it")
        tensors[piece.name] = _own(plain.tensors[piece.stored], piece)
    return plain.with_tensors(tensors)


def _own(info: TensorInfo, piece: Piece) -> TensorInfo:
    shape, decode = info.shape, info.decode
    if piece.rows is not None:
        start, stop = piece.rows
        shape, decode = (stop - start, *shape[1:]), _after(decode, lambda tensor: tensor[start:stop])
    if piece.turned:
        shape, decode = shape[::-1], _after(decode, lambda tensor: tensor.T)
    changed = piece.turned or piece.rows is not None
    return replace(info, shape=shape, decode=decode, itemsize=info.itemsize or 4) if changed else info


def _after(decode: Decode, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Decode:
    def changed(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return change(decode(parts))

    return changed
