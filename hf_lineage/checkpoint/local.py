"""The checkpoint of a model on this disk: its tensors by name, read one at a time."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.class_tensors import Place
from hf_lineage.architecture.layers import STACKED
from hf_lineage.checkpoint.tensor import ByRows, Memory, StoredRows, StoredTensor, TensorInfo, as_stored, unreadable
from hf_lineage.errors import CheckpointError, NothingToCompare, printable


class Checkpoint:
    """The tensors of one model; only headers are read before `read` is called."""

    remote = False  # whether reading downloads
    _downloads: Any = None

    def __init__(self, stored: Mapping[str, StoredTensor], tensors: Mapping[str, TensorInfo]) -> None:
        self.stored = stored  # name -> tensor as a file holds it
        self.tensors = tensors  # name -> tensor as the model loads it, which may be decoded from several stored ones
        self.notes: tuple[str, ...] = ()  # sentences about names that are not those in transformers

    def content(self, file: Path) -> str:
        """Return the Hub's name of the content of a file, its SHA-256 if it is large; empty if unknown."""
        return file.resolve().name if file.is_symlink() and file.resolve().parent.name == "blobs" else ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    @property
    def decoded_names(self) -> frozenset[str]:
        """The names of the tensors that are not read as they are stored, but decoded."""
        return frozenset(name for name, tensor in self.tensors.items() if tensor.itemsize)

    @property
    def requests(self) -> int:
        """The number of requests made over the network."""
        return self._downloads.requests if self._downloads else 0

    @property
    def bytes_read(self) -> int:
        """The number of bytes downloaded."""
        return self._downloads.downloaded if self._downloads else 0

    def parts(self, names: Iterable[str]) -> dict[str, StoredTensor]:
        """Return the stored tensors from which some tensors of the model are decoded, each once."""
        return {part: self.stored[part] for name in names for part in self.tensors[name].parts}

    def with_tensors(self, tensors: Mapping[str, TensorInfo]) -> "Checkpoint":
        """Return the same files with other tensors decoded from them."""
        other = copy.copy(self)
        other.tensors = tensors
        return other

    def with_places(self, places: Mapping[str, Place]) -> "Checkpoint":
        """Return the same files with other tensors: each is a part of one of these, or several of these joined."""
        used, stored = {one for place in places.values() for one in place.names}, dict(self.stored)
        others = {name: info for name, info in self.tensors.items() if name not in used}
        views = {name: _view([self.tensors[one] for one in at.names], at, stored) for name, at in places.items()}
        other = self.with_tensors(others | views)
        lost = self.parts(used).keys() - {part for info in other.tensors.values() for part in info.parts}
        other.stored = {name: tensor for name, tensor in stored.items() if name not in lost}
        return other

    def release(self) -> None:
        """Cancel the downloads that are still running."""

    def prefetch(self, *names: str) -> None:
        """Get these tensors in the background, each once, while something else is computed."""
        self.prefetch_pieces(self.parts(names).values())

    def prefetch_pieces(self, pieces: Iterable[StoredTensor], gap: int | None = None) -> None:
        """Ask the system to read rows of stored matrices in the background, where it can; a gap costs nothing here."""
        del gap
        for piece in pieces:
            piece.prefetch()

    def read_pieces(self, name: str, pieces: Iterable[StoredTensor]) -> NDArray[Any]:
        """Return rows of one matrix, one piece below the other; of several parts each piece comes once from each."""
        tensor, read = self.tensors[name], self._read(name, pieces)
        each = len(tensor.parts)
        decoded = [tensor.decode(read[at : at + each]) for at in range(0, len(read), each)]
        return decoded[0] if len(decoded) == 1 else np.concatenate(decoded)

    def wait(self, *names: str) -> None:
        """Return when these tensors are on this disk."""

    def at_hand(self, name: str) -> bool:
        """Return whether a tensor can be read without a download."""
        return name in self.tensors

    def rows(self, name: str) -> StoredRows | None:
        """Return a matrix whose rows can be read, on the Hub after `wait`; None where it is decoded, or no matrix."""
        parts = self.row_parts(name) if self.tensors[name].decode is as_stored else ()
        return StoredRows(name, parts[0]) if parts else None

    def experts(self, name: str) -> StoredRows | None:
        """Return a stack of matrices of which single ones can be read, as `rows` does; None for any other tensor."""
        tensor = self.tensors[name]
        stack = tensor.decode is as_stored and not tensor.refusal and len(tensor.shape) == STACKED and tensor.numbers
        return StoredRows(name, self.stored[tensor.parts[0]]) if stack else None

    def row_parts(self, name: str) -> tuple[StoredTensor, ...]:
        """Return the parts of a matrix of which `read_pieces` can read some rows alone; none for any other."""
        tensor = self.tensors[name]
        alone = tensor.decode is as_stored or isinstance(tensor.decode, ByRows)
        matrix = not tensor.refusal and len(tensor.shape) == 2 and tensor.numbers
        return tuple(self.stored[part] for part in tensor.parts) if alone and matrix else ()

    def read_parts(self, name: str, rows: slice | None = None) -> list[NDArray[Any]]:
        """Return the stored parts from which one tensor is decoded, or some rows of those of `row_parts`."""
        parts = self.parts([name]).values()
        return self._read(name, parts if rows is None else [part.rows(rows) for part in parts])

    def read(self, name: str, memory: Memory | None = None) -> NDArray[Any]:
        """Return one tensor, its parts read into `memory` or anew; raise NothingToCompare if it cannot be decoded."""
        tensor = self.tensors[name]
        if tensor.refusal:
            raise NothingToCompare(f"{name} {tensor.refusal}")
        return tensor.decode(self._read(name, self.parts([name]).values(), memory))

    def _read(self, name: str, parts: Iterable[StoredTensor], memory: Memory | None = None) -> list[NDArray[Any]]:
        try:
            return [part.read(memory or Memory()) for part in parts]
        except OSError as error:
            raise unreadable(name, error) from None


def _view(infos: Sequence[TensorInfo], place: Place, stored: dict[str, StoredTensor]) -> TensorInfo:
    """Return tensors joined, some rows of one, or all of one; of experts that are stored apart only one is read."""
    info, rows, expert = infos[0], place.rows, place.expert
    if len(infos) > 1:

        def join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
            left = iter(parts)
            return np.concatenate([info.decode([next(left) for _ in info.parts]) for info in infos])

        height, refusals = sum(one.shape[0] for one in infos), filter(None, (one.refusal for one in infos))
        parts = tuple(part for one in infos for part in one.parts)
        return TensorInfo((height, *info.shape[1:]), parts, join, 4, next(refusals, ""))
    if rows is None:
        return info
    shape, pieces = info.shape[expert is not None :], {part: stored[part] for part in info.parts}
    if expert is not None and all(one.shape[:1] == info.shape[:1] for one in pieces.values()):
        pieces = {f"{name}[{expert}]": one.rows(slice(expert, expert + 1)) for name, one in pieces.items()}
        expert = 0
    if plain := info.decode is as_stored:
        pieces = {f"{name}[{rows.start}:]": replace(one, shape=shape).rows(rows) for name, one in pieces.items()}
    if any(stored.setdefault(name, one) != one for name, one in pieces.items()):
        raise CheckpointError(f"a tensor is named like {printable(next(iter(pieces)), 200)}; do not trust the file")
    at = rows if expert is None else (expert, rows)
    decode = as_stored if plain else lambda given: info.decode(given)[at]
    return replace(info, shape=(rows.stop - rows.start, *shape[1:]), parts=(*pieces,), decode=decode, codes="")
