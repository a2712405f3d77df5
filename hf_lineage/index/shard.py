"""Shards: models of one path, width and recipe by short keys, in a safetensors file, with their names beside it.

A candidate that was picked because its numbers are alike cannot be tested on the same numbers. So the key is made of
the residuals on one half of the test coordinates, and the test permutes the other half. Anybody may have written a
shard: sizes are held against bounds before anything is allocated, and no file is mapped into memory.
"""

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.schema import MOST_LAYERS
from hf_lineage.errors import SignatureError, printable
from hf_lineage.files.atomic import make_folder, remove_file, write_atomically
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import Stamp, opened_header, read_into
from hf_lineage.signature.recipe import Array, random_stream, signs
from hf_lineage.signature.values import WIDEST, PathSignature, Signature

VERSION = 1  # raised when keys are made in another way; those of another version are not compared
BITS = 2048  # signs of a key: the cosine of two keys is then known to ±.035

Key = NDArray[np.uint8]  # (BITS / 8,): packed signs
_COSINES = np.cos(np.pi * np.arange(BITS + 1) / BITS).astype(np.float32)  # cosines by the number of unlike signs


def key_of(path: PathSignature) -> Key:
    """Return the key of a model along one path: signs of random sums over its residuals, of all layers together.

    Unrelated residuals are nearly orthogonal, so the cosine of two sums is close to the mean cosine of the layers.
    """
    chosen, _ = halves(path.corner.shape[1])
    blocks = path.corner[:, chosen][:, :, chosen].reshape(len(path.corner), -1)
    sizes = np.linalg.norm(blocks, axis=1, keepdims=True)
    total = np.divide(blocks, sizes, out=np.zeros_like(blocks), where=sizes > 0).sum(axis=0)
    return np.packbits(_projection(len(total)) @ total > 0)


def similarities(key: Key, keys: NDArray[np.uint8]) -> Array:
    """Return the estimated cosine of a key with each of several, (n,): cos(π x) for a share x of unlike signs."""
    unlike = np.bitwise_count(keys.view(np.uint64) ^ key.view(np.uint64))
    return np.asarray(_COSINES[np.einsum("ij->i", unlike, dtype=np.uint16)])


def for_testing(signature: Signature, path: str) -> Signature:
    """Return a signature of one path whose test coordinates are those that its key is not made of."""
    whole = signature.paths[path]
    _, chosen = halves(whole.corner.shape[1])
    corner = np.ascontiguousarray(whole.corner[:, chosen][:, :, chosen])
    recipe = replace(signature.recipe, coordinates=len(chosen))
    return replace(signature, recipe=recipe, paths={path: replace(whole, corner=corner)})


def halves(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the coordinates of the key and of the test, among so many; drawn once and for ever."""
    order = np.argsort(random_stream(f"index {VERSION} {size}").random_raw(size), kind="stable")
    return np.sort(order[: size // 2]), np.sort(order[size // 2 :])


@functools.lru_cache(maxsize=4)
def _projection(size: int) -> Array:
    return signs(f"index {VERSION} key {size}", (BITS, size))


KEYS, MODELS = ".safetensors", ".jsonl"  # ends of the names of the two files of a shard
SIZE, MOST_ROWS = BITS // 8, 2**22  # bytes of a key, and models of a shard
AT_ONCE = 2**12  # keys that are read at a time: a megabyte stays in a processor's cache
LARGEST_HEADER, LONGEST_NAME, LONGEST_LINE = 2**14, 2**12, 2**15  # bytes


class Group(NamedTuple):
    """Properties that models have in common whose keys can be compared."""

    path: str
    width: int
    recipe: str  # recipe by which their signatures were made, as the label of the file of a signature


@dataclass(frozen=True, order=True)
class Entry:
    """One model along one path."""

    model: str  # the name of the model, without its revision where it has a commit
    commit: str  # the commit of the model; empty for a folder
    path: str
    width: int
    layers: int
    recipe: str

    @property
    def group(self) -> Group:
        """The models with which it can be compared."""
        return Group(self.path, self.width, self.recipe)

    @property
    def identity(self) -> str:
        """The name of its files: equal for one commit, path and recipe."""
        text = "\n".join((self.model, self.commit, self.path, self.recipe))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata of a file of keys, as JSON under the key `index`."""

    version: int
    path: str
    width: Annotated[int, msgspec.Meta(ge=2, le=WIDEST)]
    recipe: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]{1,200}\Z")]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, as a line of JSON."""

    model: str
    commit: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{0,64}\Z")]
    layers: Annotated[int, msgspec.Meta(ge=1, le=MOST_LAYERS)]


class ShardGoneError(SignatureError):
    """Another process has joined a shard to others meanwhile."""


@dataclass(frozen=True)
class Shard:
    """A shard of which the header was read."""

    file: Path  # the file with its keys
    group: Group
    rows: int
    start: int  # offset of the keys in the file, in bytes
    stamp: Stamp

    @classmethod
    def open(cls, file: Path) -> "Shard":
        """Return a shard; raise SignatureError for a file that is none, ShardGoneError if there is no file."""
        with _reading(file), opened_header(file, LARGEST_HEADER) as (opened, start, stamp):
            if list(opened.keys()) != ["keys"]:
                raise ValueError("it does not hold one tensor with the name keys")
            tensor, metadata = opened.get_slice("keys"), (opened.metadata() or {}).get("index", "")
            dtype, (rows, *size) = tensor.get_dtype(), tensor.get_shape() or [0]
            if (dtype, size) != ("U8", [SIZE]) or rows > MOST_ROWS:
                raise ValueError(f"its keys are {dtype} of {[rows, *size]}, not U8 of at most {[MOST_ROWS, SIZE]}")
            header = msgspec.json.decode(metadata, type=_Header)
            if header.version != VERSION:
                raise ValueError(f"its keys were made in another way (version {header.version}, not {VERSION})")
            if header.path not in PATHS:
                raise ValueError(f"its path is not one of {', '.join(PATHS)}")
            return cls(file, Group(header.path, header.width, header.recipe), rows, start, stamp)

    @property
    def models(self) -> Path:
        """The file with their names."""
        return self.file.with_suffix(MODELS)

    def pieces(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the keys (n, SIZE) some at a time, in an array that is filled again; raise as `open` does."""
        buffer = np.empty((min(self.rows, AT_ONCE), SIZE), np.uint8)
        for first in range(0, self.rows, AT_ONCE):
            some = buffer[: self.rows - first]
            with _reading(self.file):
                read_into(self.file, self.start + first * SIZE, memoryview(some.reshape(-1).data), self.stamp)
            yield some

    def keys(self) -> NDArray[np.uint8]:
        """Return all keys (rows, SIZE); raise as `open` does."""
        return np.concatenate([np.zeros((0, SIZE), np.uint8), *(some.copy() for some in self.pieces())])

    def entries(self, rows: Sequence[int] | None = None) -> list[Entry]:
        """Return the models in some rows, or in all; raise as `open` does."""
        wanted, by_row, group = range(self.rows) if rows is None else set(rows), dict[int, Entry](), self.group
        with _reading(self.models), open_regular(self.models) as stream:
            for row in range(self.rows):
                line = stream.readline(LONGEST_LINE)
                if not line.endswith(b"\n"):
                    raise ValueError(f"it ends before line {row + 1} of {self.rows}, or that is too long")
                if row in wanted:
                    read = msgspec.json.decode(line, type=_Line)
                    if problem := why_unnameable(read.model):
                        raise ValueError(problem)
                    by_row[row] = Entry(read.model, read.commit, group.path, group.width, read.layers, group.recipe)
            if stream.read(1):
                raise ValueError(f"it has more lines than there are keys, {self.rows}")
            if rows is None and len({(one.model, one.commit) for one in by_row.values()}) < self.rows:
                raise ValueError("a model is in it twice")
        return [by_row[row] for row in (wanted if rows is None else rows)]

    def remove(self) -> None:
        """Remove its two files, the keys first; raise SignatureError where that cannot be done."""
        remove_file(self.file)
        remove_file(self.models)


def write(folder: Path, name: str, entries: Sequence[Entry], keys: NDArray[np.uint8]) -> Path:
    """Write models of one group as a shard, the file with the keys last, and return that."""
    (group,) = {entry.group for entry in entries}
    header = msgspec.json.encode(_Header(VERSION, group.path, group.width, group.recipe)).decode()
    make_folder(folder)
    lines = (msgspec.json.encode(_Line(entry.model, entry.commit, entry.layers)) + b"\n" for entry in entries)
    write_atomically(folder / f"{name}{MODELS}", b"".join(lines))
    file = folder / f"{name}{KEYS}"
    write_atomically(file, save({"keys": np.ascontiguousarray(keys)}, {"index": header}))
    return file


def join_shards(shards: Iterable[Shard]) -> tuple[list[Shard], list[Entry], NDArray[np.uint8]]:
    """Return shards of one group that can still be read, and their models in order, each once, with their keys."""
    read, entries, keys = list[Shard](), list[Entry](), [np.zeros((0, SIZE), np.uint8)]
    for shard in shards:
        with contextlib.suppress(ShardGoneError):
            own, codes = shard.entries(), shard.keys()
            read.append(shard)
            entries += own
            keys.append(codes)
    rows = [row for _, row in sorted({(one.model, one.commit): row for row, one in enumerate(entries)}.items())]
    return read, [entries[row] for row in rows], np.concatenate(keys)[rows]


def entries_at(shards: Sequence[Shard], rows: Sequence[int]) -> list[Entry]:
    """Return the models in some rows of several shards, counted on from each to the next."""
    entries, before = dict[int, Entry](), 0
    for shard in shards:
        own = [row for row in rows if before <= row < before + shard.rows]
        if own:
            entries |= zip(own, shard.entries([row - before for row in own]), strict=True)
        before += shard.rows
    return [entries[row] for row in rows]


def why_unnameable(model: str) -> str:
    """Return why a name can stand in no line of an index; empty if it can."""
    if not model.isprintable():
        return f"the name {printable(model, 100)} has characters that are not printed"
    size = len(model.encode())
    return "" if 0 < size <= LONGEST_NAME else f"the name has {size} bytes, not 1 to {LONGEST_NAME}"


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ShardGoneError(f"{file} is gone; run again, or add the models of the index again") from None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError, safetensors.SafetensorError) as error:
        raise SignatureError(
            f"{file} is not a file of an index: {printable(error, 200)}; remove it and add its models again"
        ) from None
