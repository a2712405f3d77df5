"""The header of a GGUF file: its metadata and what it says of each tensor, parsed with bounds, for it is untrusted.

Only short values are kept: a vocabulary of a hundred thousand words is stepped over and not held in memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from hf_lineage.checkpoint.foreign_form import BoundedReader, HeaderError, decode_text

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_HEADER = 2**26
"""Bytes: several times the longest vocabulary."""
MOST_KEYS, MOST_TENSORS, MOST_ITEMS, MOST_TEXTS = 2**14, 2**17, 2**22, 2**20
"""Texts are items that are kept: four times as many as the largest vocabulary has."""
LONGEST_NAME, LONGEST_TEXT, LONGEST_LIST = 2**10, 2**12, 2**12
"""The most bytes of a name, of a text that is kept, and the most numbers of a list that is kept."""
MOST_DIMENSIONS, LARGEST_DIMENSION, LARGEST_ALIGNMENT = 4, 2**48, 2**20
ALIGNMENT = "general.alignment"
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""The number of a type -> how `struct` reads it."""
TEXT, LIST = 8, 9


class GgufTensor(NamedTuple):
    """One tensor as the header describes it."""

    name: str
    shape: tuple[int, ...]
    """As NumPy has it: the numbers of the last dimension lie side by side."""
    kind: int
    """The number of its type."""
    start: int
    """The position of its first byte in the file."""


@dataclass(frozen=True)
class GgufHeader:
    """The metadata and the descriptions of tensors that stand before the numbers of a file."""

    metadata: Mapping[str, Any]
    """Numbers, short texts and short lists of numbers; everything longer is left out."""
    tensors: tuple[GgufTensor, ...]


def parse(stream: BinaryIO, size: int) -> GgufHeader:
    """Return the header of a GGUF file of this size in bytes; raise HeaderError, or OSError if it cannot be read."""
    reader = _open(stream, size)
    tensors, keys = reader.beginning()
    if tensors > MOST_TENSORS:
        raise HeaderError(f"claims {tensors} tensors; hf-lineage reads at most {MOST_TENSORS}; do not trust it")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.name()
        if key in metadata:
            raise HeaderError(f"has the key {key!r} twice; do not trust it")
        metadata[key] = reader.value(reader.number("<I"))
    entries = [reader.tensor() for _ in range(tensors)]
    if len({entry.name for entry in entries}) != len(entries):
        raise HeaderError("has two tensors of one name; do not trust it")
    alignment = metadata.get(ALIGNMENT, 32)
    if not isinstance(alignment, int) or not 0 < alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
        raise HeaderError(f"says {ALIGNMENT}: {alignment!r}, which is not a power of two; do not trust it")
    begin = -(-reader.position // alignment) * alignment
    misplaced = next((one for one in entries if one.start % alignment or one.start + begin >= max(size, 1)), None)
    if misplaced is not None:
        raise HeaderError(
            f"is truncated or damaged: its {misplaced.name} does not begin within the file; download it again"
        )
    return GgufHeader(
        {key: value for key, value in metadata.items() if value is not None},
        tuple(entry._replace(start=begin + entry.start) for entry in entries),
    )


def texts(stream: BinaryIO, size: int, key: str) -> tuple[str, ...]:
    """Return the texts of the list under a key, which `parse` leaves out; none where there is no list of texts.

    Raise as `parse` does.
    """
    reader = _open(stream, size)
    _, keys = reader.beginning()
    for _ in range(keys):
        name, kind = reader.name(), reader.number("<I")
        if name == key:
            return reader.texts() if kind == LIST else ()
        reader.value(kind)
    return ()


def _open(stream: BinaryIO, size: int) -> _Reader:
    return _Reader(stream, size, "it ends within its header", LARGEST_HEADER)


class _Reader(BoundedReader):
    """Reads the parts of a GGUF header one after the other."""

    def beginning(self) -> tuple[int, int]:
        """Return the number of tensors and the number of keys."""
        start = self.take(4)
        if start != MAGIC:
            raise HeaderError("is not a GGUF file; have it saved again")
        version = self.number("<I")
        if version not in VERSIONS:
            big = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            why = "is written for big-endian machines" if big else f"is of version {version}"
            raise HeaderError(f"{why}; only little-endian versions 2 and 3 are read; convert the model again")
        tensors, keys = self.number("<Q"), self.number("<Q")
        if keys > MOST_KEYS:
            raise HeaderError(f"claims {keys} keys; hf-lineage reads at most {MOST_KEYS}; do not trust it")
        return tensors, keys

    def name(self) -> str:
        length = self.number("<Q")
        if length > LONGEST_NAME:
            raise HeaderError(f"has a name of {length} bytes; do not trust it")
        return decode_text(self.take(length))

    def value(self, kind: int) -> Any:
        """Return the value of a key; None for one that is too long to be kept."""
        if kind == TEXT:
            length = self.number("<Q")
            if length > LONGEST_TEXT:
                self.skip(length)
                return None
            return decode_text(self.take(length))
        if kind == LIST:
            return self._list(self.number("<I"), self._count())
        if kind not in SCALARS:
            raise HeaderError(f"has a value of the unknown type {kind}; do not trust it")
        return self.number(SCALARS[kind])

    def texts(self) -> tuple[str, ...]:
        """Return all texts of a list, whatever their number; none if it is a list of something else."""
        kind, count = self.number("<I"), self._count()
        if count > MOST_TEXTS:
            raise HeaderError(f"has a list of {count} texts; hf-lineage reads at most {MOST_TEXTS}; do not trust it")
        return tuple(decode_text(self.take(self.number("<Q"))) for _ in range(count)) if kind == TEXT else ()

    def tensor(self) -> GgufTensor:
        """Return a tensor, its start counted from where the numbers begin."""
        name, dimensions = self.name(), self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise HeaderError(f"says that its {name} has {dimensions} dimensions; do not trust it")
        shape = tuple(self.number("<Q") for _ in range(dimensions))[::-1]
        if not all(1 <= length <= LARGEST_DIMENSION for length in shape) or math.prod(shape) > LARGEST_DIMENSION:
            raise HeaderError(f"says that its {name} has the shape {shape}; do not trust it")
        return GgufTensor(name, shape, self.number("<I"), self.number("<Q"))

    def _count(self) -> int:
        count: int = self.number("<Q")
        if count > MOST_ITEMS:
            raise HeaderError(f"has a list of {count} items; do not trust it")
        return count

    def _list(self, kind: int, count: int) -> tuple[Any, ...] | None:
        if kind == TEXT:
            for _ in range(count):
                self.skip(self.number("<Q"))
            return None
        if kind not in SCALARS:
            raise HeaderError(f"has a list of the unknown type {kind}; do not trust it")
        form = SCALARS[kind]
        if count > LONGEST_LIST:
            self.skip(count * struct.calcsize(form))
            return None
        return struct.unpack(f"<{count}{form[1]}", self.take(count * struct.calcsize(form)))
