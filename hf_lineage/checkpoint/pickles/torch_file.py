"""Files of torch.save: the place of the numbers of each tensor, found without torch and without unpickling.

Since 2020 such a file is a ZIP archive that is not compressed, with `data.pkl` and an entry for each storage. Before,
pickles and storages stood one behind the other. Source: torch/serialization.py and torch/_utils.py.
"""

import io
import math
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hf_lineage.architecture.registry import registry_table
from hf_lineage.checkpoint.pickles.values import Call, DamagedError, Name, Persistent, UnknownError, read_pickle
from hf_lineage.checkpoint.tensor import DTYPES, LFS_POINTER, StoredTensor
from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import Stamp

LARGEST = 2**24  # bytes of a pickle, and of the list of entries of an archive: those of a hundred thousand tensors
ZIP, ENTRY = b"PK\3\4", 30  # the beginning of an archive, and the number of bytes before the name of an entry
TENSOR, WITH_TYPE, PARAMETER = (f"torch._utils._rebuild_{name}" for name in ("tensor_v2", "tensor_v3", "parameter"))
TYPES = registry_table("loading/torch.yaml", dict[str, str])  # name in torch -> that of safetensors
MOST_DIMENSIONS, LARGEST_DIMENSION = 8, 2**48
CALLS = frozenset({TENSOR, WITH_TYPE, PARAMETER})
LENGTH = 8  # bytes before a storage of an old file, which say how long it is
NO_TENSOR = "holds a tensor with an invalid shape or place"
INSTEAD = "save the `state_dict()` of the model as safetensors where you trust the file"
Places = dict[str, tuple[int, int]]  # key of a storage -> the position of its first byte, and the number of its bytes


@dataclass(frozen=True)
class _View:
    dtype: str
    key: str  # the key of its storage
    storage_size: int  # bytes of the storage
    offset: int  # numbers of the storage before its first one
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def torch_header(file: Path, text: str) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of a file of torch.save; errors call it `text`; NothingToCompare if it holds anything else."""
    try:
        with open_regular(file) as stream:
            stamp = Stamp.take(stream)
            start = stream.read(len(LFS_POINTER))
            if start == LFS_POINTER:
                raise DamagedError("it is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")
            stream.seek(0)
            content, places = (_archive if start.startswith(ZIP) else _sequence)(stream, stamp.size)
            for name, view in _views(content).items():
                yield name, _locate_tensor(name, view, places, file, stamp)
    except UnknownError as error:
        raise NothingToCompare(f"{text} {printable(error, 300)}; only named tensors are read; {INSTEAD}") from None
    except (ValueError, OverflowError, struct.error, zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise CheckpointError(f"{text} is damaged: {printable(error, 300)}; download it again") from None
    except OSError as error:
        raise CheckpointError(f"{text} cannot be read: {error.strerror or error}; check its permissions") from None


def _archive(stream: BinaryIO, size: int) -> tuple[Any, Places]:
    bounded: Any = _BoundedFile(stream, size)
    with zipfile.ZipFile(bounded) as archive:
        listed = archive.infolist()
        if archive.comment:
            raise DamagedError("it is an archive with a comment, and torch writes none")
    entries = {entry.filename.casefold(): entry for entry in listed}
    folder = listed[0].filename.partition("/")[0] if listed else ""
    pickled = entries.get(f"{folder}/data.pkl".casefold())
    if len(entries) != len(listed) or pickled is None:
        raise DamagedError("it is an archive without data.pkl, or with two entries of one name")
    order = entries.get(f"{folder}/byteorder".casefold())
    if order and _content(stream, _place(stream, order, size)) != b"little":
        raise DamagedError("its numbers are not stored with the lowest byte first")
    content = read_pickle(io.BytesIO(_content(stream, _place(stream, pickled, size))), CALLS)
    start = f"{folder}/data/"
    inside = [entry for entry in listed if entry.filename.startswith(start)]
    return content, {entry.filename.removeprefix(start): _place(stream, entry, size) for entry in inside}


class _BoundedFile:
    """A file that is read in parts no larger than the list of entries may be."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size, self.seek, self.tell = stream, size, stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        left = self._size - self.tell()
        wanted = min(size, left) if size >= 0 else left  # reading allocates what is asked for
        if wanted > LARGEST:
            raise DamagedError("its list of entries is too long")
        return self._stream.read(wanted)


def _place(stream: BinaryIO, entry: zipfile.ZipInfo, size: int) -> tuple[int, int]:
    """Return position and number of the bytes of an entry; torch neither compresses nor encrypts them."""
    name = entry.filename[:200]
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.compress_size != entry.file_size:
        raise DamagedError(f"its {name} is compressed, and torch does not compress")
    stream.seek(entry.header_offset)
    head = stream.read(ENTRY)
    names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    start = entry.header_offset + ENTRY + names
    if not head.startswith(ZIP) or start + entry.file_size > size:
        raise DamagedError(f"its {name} lies outside the file")
    return start, entry.file_size


def _content(stream: BinaryIO, place: tuple[int, int]) -> bytes:
    start, length = place
    if length > LARGEST:
        raise DamagedError(f"its pickle takes {length} bytes")
    stream.seek(start)
    return stream.read(length)


def _sequence(stream: BinaryIO, size: int) -> tuple[Any, Places]:
    beginning = io.BytesIO(stream.read(min(LARGEST, size)))
    magic, _, system, content, keys = (read_pickle(beginning, CALLS) for _ in range(5))
    if magic != 0x1950A86A20F9469CFC6C:
        raise UnknownError("is a pickle that torch.save did not write")
    if not isinstance(system, dict) or system.get("little_endian") is not True or not isinstance(keys, list):
        raise DamagedError("its numbers are not stored with the lowest byte first")
    views = {view.key: view for view in _views(content).values()}
    places, position = Places(), beginning.tell()
    for key in keys:
        if not isinstance(key, str) or key not in views or key in places:
            raise DamagedError("it holds numbers that belong to no tensor")
        places[key] = position + LENGTH, views[key].storage_size
        position += LENGTH + views[key].storage_size
        if position > size:
            raise DamagedError("it is truncated")
    return content, places


def _views(content: Any) -> dict[str, _View]:
    if not isinstance(content, dict):
        raise UnknownError("holds no mapping from names to tensors")
    views = {name: _view(value) for name, value in content.items() if isinstance(value, Call)}
    if not views:
        keys = ", ".join(name[:50] for name in list(content)[:5]) or "nothing"
        raise UnknownError(f"holds no tensors at its first level, but {keys}")
    if any(not name.isprintable() for name in views):
        raise DamagedError("the name of a tensor cannot be printed")
    return views


def _view(value: Call) -> _View:
    if value.name == PARAMETER:
        inner = value.arguments[0] if value.arguments else None
        if not isinstance(inner, Call) or inner.name == PARAMETER:
            raise UnknownError(NO_TENSOR)
        return _view(inner)
    arguments: tuple[Any, ...] = (*value.arguments, None, None, None, None)
    storage, offset, shape, stride, *rest = arguments
    key = storage.key if isinstance(storage, Persistent) else None
    if not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage" or any(part is not None for part in key[5:]):
        raise UnknownError(NO_TENSOR)
    kind, dtype = _type(key[1]), _type(rest[2] if value.name == WITH_TYPE and len(rest) > 2 else key[1])
    sides = [side if isinstance(side, tuple) else (None,) for side in (shape, stride)]
    sizes = [offset, key[4], *sides[0], *sides[1]]
    fits = isinstance(key[2], str) and len(sides[0]) == len(sides[1]) <= MOST_DIMENSIONS
    if not fits or not all(type(size) is int and 0 <= size < LARGEST_DIMENSION for size in sizes):
        raise UnknownError(NO_TENSOR)
    return _View(dtype, key[2], key[4] * DTYPES[kind].itemsize, offset, shape, stride)


def _type(kind: Any) -> str:
    if not isinstance(kind, Name) or kind.text not in TYPES:
        raise UnknownError(f"holds numbers of the type {kind.text[:100] if isinstance(kind, Name) else 'unknown'}")
    return TYPES[kind.text]


def _locate_tensor(name: str, view: _View, places: Places, file: Path, stamp: Stamp) -> StoredTensor:
    if view.key not in places:
        raise DamagedError(f"the numbers of {name[:200]} are missing")
    start, length = places[view.key]
    tensor = StoredTensor(file, view.dtype, view.shape, start + view.offset * DTYPES[view.dtype].itemsize, stamp)
    rows = [math.prod(view.shape[place + 1 :]) for place in range(len(view.shape))]
    if tensor.numbers and any(side > 1 and view.stride[at] != rows[at] for at, side in enumerate(view.shape)):
        raise UnknownError(f"holds {name[:200]} with numbers that are not stored row by row")
    if view.storage_size != length or tensor.start + tensor.size > start + length:
        raise DamagedError(f"{name[:200]} of the shape {view.shape} does not fit its storage of {length} bytes")
    return tensor
