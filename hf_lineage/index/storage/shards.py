"""Shards: the Parquet files of an index, with a row for each model and path.

Keys are stored plainly, so that reading them costs no more than copying them, and the rest is in columns of its own: a
search compares no names. Nothing in a shard is compressed, so that no file is larger in memory than on disk. Rows that
come group by group are merged into one shard, without those that are known, and never all in memory.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import OptionError, SignatureError, installation
from hf_lineage.files import draft, make_folder, opened_folder
from hf_lineage.index.key import BITS, VERSION

LARGEST = 2**32
"""Bytes of a shard that is read."""
ROWS = 2**16
"""Rows of a group: what is read, checked and written at a time."""
MOST_ROWS = 2**22
"""Rows of an index that are read, of all its shards together."""
REPEATED = ["path", "width", "layers", "recipe", "source"]
"""Columns with few values, which are stored once."""
SEARCHED = ["path", "width", "recipe"]
"""What a search compares besides the keys."""
IDENTIFYING = ["model", "commit", "path", "recipe"]
STAMP = {b"hf_lineage_index": str(VERSION).encode()}
"""What the metadata of a shard say: how its keys were made."""


@dataclass(frozen=True, order=True)
class Entry:
    """One model along one path."""

    model: str
    """Without its revision, where it has a commit."""
    commit: str
    """Empty for a folder."""
    path: str
    width: int
    layers: int
    recipe: str
    """By which its signature was made, as the label of the file of a signature."""
    source: str = field(default="", compare=False)
    """The index on the Hub, and its commit, that has its signature; empty where that is in the index itself."""

    @property
    def identity(self) -> str:
        """The name of its files: equal for one commit, path and recipe."""
        return identity(self.model, self.commit, self.path, self.recipe)


def identity(model: str, commit: str, path: str, recipe: str) -> str:
    """Return the name of the files of a model: equal for one commit, path and recipe."""
    named = "\n".join((model, commit, path, recipe))
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def without_revision(model: str, commit: str) -> str:
    """Return the name of a model that is at a commit, without the revision that was asked for."""
    return model.partition("@")[0] if commit else model


NAMES = [column.name for column in fields(Entry)]


def encoded(entries: Sequence[Entry], keys: NDArray[np.uint8]) -> bytes:
    """Return the content of a shard."""
    return content(rows(entries, keys))


def rows(entries: Sequence[Entry], keys: NDArray[np.uint8]) -> Any:
    """Return models and their keys as a table of pyarrow."""
    arrow, _ = libraries()
    columns: dict[str, Any] = {name: [getattr(entry, name) for entry in entries] for name in NAMES}
    codes = np.ascontiguousarray(keys, np.uint8).reshape(len(entries), BITS // 8)
    key = arrow.FixedSizeBinaryArray.from_buffers(arrow.binary(BITS // 8), len(codes), [None, arrow.py_buffer(codes)])
    return arrow.table(columns | {"key": key}, schema=schema())


def content(table: Any) -> bytes:
    """Return the content of a shard with the rows of a table."""
    stream = io.BytesIO()
    write(table.to_batches(), stream)
    return stream.getvalue()


def write(batches: Iterable[Any], stream: IO[bytes]) -> int:
    """Write the rows of record batches as a shard, a group of rows at a time; return how many there were."""
    arrow, parquet = libraries()
    waiting, written = schema().empty_table(), 0
    how: dict[str, Any] = {"compression": "none", "use_dictionary": REPEATED, "write_statistics": False}
    with parquet.ParquetWriter(stream, schema().with_metadata(STAMP), **how) as writer:
        for batch in batches:
            waiting = arrow.concat_tables([waiting, arrow.Table.from_batches([batch], schema())])
            written += len(batch)
            while len(waiting) >= ROWS:
                writer.write_table(waiting.slice(0, ROWS), ROWS)
                waiting = waiting.slice(ROWS)
        if len(waiting) or not written:
            writer.write_table(waiting, ROWS)
    return written


def sorted_rows(table: Any) -> Any:
    """Return the rows of an index in their order, each once; of a row and its copy from elsewhere the row itself."""
    import pyarrow.compute as compute

    table = table.combine_chunks()
    order = compute.sort_indices(table, sort_keys=[(name, "ascending") for name in (*IDENTIFYING, "source")])
    table = table.take(order).combine_chunks()
    first = np.ones(len(table), np.bool_)
    if len(table) > 1:
        same = [
            compute.equal(table[name].slice(1), table[name].slice(0, len(table) - 1)).to_numpy() for name in IDENTIFYING
        ]
        first[1:] = ~np.logical_and.reduce(same)
    return table if first.all() else table.filter(first)


def keys_of(batch: Any) -> NDArray[np.uint8]:
    """Return the keys of a record batch, (n, BITS / 8), without a copy."""
    column = batch["key"]
    codes = np.frombuffer(column.buffers()[1] or b"", np.uint8).reshape(-1, BITS // 8)
    return codes[column.offset : column.offset + len(column)]


def schema() -> Any:
    """Return the schema of a shard."""
    arrow, _ = libraries()
    types = {"width": arrow.int32(), "layers": arrow.int32()}
    columns = [arrow.field(name, types.get(name, arrow.string()), nullable=False) for name in NAMES]
    return arrow.schema([*columns, arrow.field("key", arrow.binary(BITS // 8), nullable=False)])


def libraries() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet; OptionError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OptionError(f"an index needs pyarrow; {installation('index')}") from None
    return pyarrow, pyarrow.parquet


def identities(rows: Any) -> Iterator[bytes]:
    """Yield what tells each row of a group from those of other models, commits, paths and recipes."""
    for named in zip(*(rows[name].to_pylist() for name in IDENTIFYING), strict=True):
        yield bytes.fromhex(identity(*named))


def merged(batches: Iterable[Any], known: set[bytes], folder: Path, ending: str) -> int:
    """Write the rows that are not known as one shard, which is there whole or not at all; return how many there are."""
    make_folder(folder)
    try:
        with opened_folder(folder) as opened, draft(opened) as new:
            count = write(_new(batches, known), new.stream)
            if count:
                new.stream.seek(0)
                new.become(f"{hashlib.file_digest(new.stream, 'sha256').hexdigest()[:32]}{ending}")
    except OSError as error:
        why = error.strerror or error
        raise SignatureError(f"{folder} cannot be written: {why}; make room, or name another --index") from None
    return count


def _new(batches: Iterable[Any], known: set[bytes]) -> Iterator[Any]:
    """The rows that are not known, each once."""
    for rows in batches:
        new = np.zeros(len(rows), np.bool_)
        for row, one in enumerate(identities(rows)):
            new[row] = one not in known
            known.add(one)
        if new.any():
            yield rows if new.all() else rows.filter(new)
