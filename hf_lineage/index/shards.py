"""Shards: the Parquet files of an index, with a row for each model and path.

Keys are stored plainly, so that reading them costs no more than copying them, and the rest is in columns of its own: a
search reads no names. Nothing in a shard is compressed, so that no file is larger in memory than on disk.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import OptionError, SignatureError, printable
from hf_lineage.index.key import BITS, VERSION

REMEDY = "remove it and add its models again"
"""For a shard of an index of the user's own."""
LARGEST = 2**31
"""Bytes of a shard that is read."""
ROWS = 2**16
"""Rows of a group: what is read to learn the names of one row."""
REPEATED = ["path", "width", "layers", "recipe", "source"]
"""Columns with few values, which are stored once."""
SEARCHED = ["path", "width", "recipe"]
"""What a search compares besides the keys."""
IDENTIFYING = ["model", "commit", "path", "recipe"]
ENCODINGS = frozenset({"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"})
"""How columns may be stored: by these a value is as long in memory as in the file."""
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
    arrow, _ = libraries()
    columns: dict[str, Any] = {name: [getattr(entry, name) for entry in entries] for name in NAMES}
    codes = np.ascontiguousarray(keys, np.uint8).reshape(len(entries), BITS // 8)
    key = arrow.FixedSizeBinaryArray.from_buffers(arrow.binary(BITS // 8), len(codes), [None, arrow.py_buffer(codes)])
    return content(arrow.table(columns | {"key": key}, schema=schema()))


def content(table: Any) -> bytes:
    """Return the content of a shard with the rows of a table."""
    _, parquet = libraries()
    stream = io.BytesIO()
    stamped = table.replace_schema_metadata(STAMP)
    parquet.write_table(
        stamped, stream, compression="none", use_dictionary=REPEATED, row_group_size=ROWS, write_statistics=False
    )
    return stream.getvalue()


def opened(file: Path, few: Collection[str] = REPEATED) -> Any:
    """Return a shard as pyarrow's file, mapped into memory; SignatureError if it is none, FileNotFoundError if gone.

    Texts of the columns with few values are read once each.
    """
    arrow, parquet = libraries()
    try:
        metadata = parquet.read_metadata(file)
        _check(file, metadata)
        texts = [name for name in few if schema().field(name).type == arrow.string()]
        shard = parquet.ParquetFile(file, metadata=metadata, memory_map=True, read_dictionary=texts)
    except FileNotFoundError:
        raise
    except (OSError, arrow.ArrowException) as error:
        raise _refusal(file, str(error)) from None
    for column in schema():
        actual = shard.schema_arrow.field(column.name).type
        if (actual.value_type if arrow.types.is_dictionary(actual) else actual) != column.type:
            raise _refusal(file, f"its column {column.name} is of the type {actual}")
    return shard


def rows_of(
    file: Path,
    shard: Any,
    columns: Sequence[str],
    group: int | None = None,
    check: Callable[[Any], str] | None = None,
) -> Any:
    """Return some columns of a shard, of one group of rows or of all; SignatureError if it is damaged.

    `check` says what is wrong with them while each text that is repeated is held once.
    """
    arrow, _ = libraries()
    try:
        table = shard.read(list(columns)) if group is None else shard.read_row_group(group, list(columns))
        table.validate(full=True)
        if check is not None and (problem := check(table)):
            raise _refusal(file, problem)
    except (OSError, arrow.ArrowException) as error:
        raise _refusal(file, str(error)) from None
    wanted = arrow.schema([schema().field(name) for name in columns])
    try:
        return table.cast(wanted)
    except (ValueError, arrow.ArrowException) as error:
        raise _refusal(file, str(error)) from None


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


def keys_of(table: Any) -> NDArray[np.uint8]:
    """Return the keys of a table, (n, BITS / 8), without a copy where they are in one piece."""
    column = table["key"].combine_chunks()
    if hasattr(column, "chunks"):  # a column without rows
        return np.zeros((0, BITS // 8), np.uint8)
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
        raise OptionError("an index needs pyarrow; install hf-lineage[index]") from None
    return pyarrow, pyarrow.parquet


def _check(file: Path, metadata: Any) -> None:
    """Refuse what is no shard, has more rows than its bytes can hold, or pages that grow when they are read."""
    stamp, size = (metadata.metadata or {}).get(b"hf_lineage_index"), file.stat().st_size
    if stamp is None or metadata.schema.names != schema().names:
        raise _refusal(file, f"it has the columns {', '.join(metadata.schema.names[:10])}")
    if stamp != STAMP[b"hf_lineage_index"]:
        raise _refusal(file, f"its keys are of version {stamp.decode(errors='replace')}, not {VERSION}")
    if size > LARGEST or metadata.num_rows * BITS // 8 > size:
        raise _refusal(file, f"it has {size} bytes and {metadata.num_rows} rows, more than it can hold or may")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(at) for at in range(group.num_columns)]
        if group.num_rows != min(ROWS, metadata.num_rows - number * ROWS):
            raise _refusal(file, f"its groups do not have {ROWS} rows each")
        if any(column.compression != "UNCOMPRESSED" or column.num_values != group.num_rows for column in columns):
            raise _refusal(file, "it is compressed, or its columns are of unlike length")
        if others := {encoding for column in columns for encoding in column.encodings} - ENCODINGS:
            raise _refusal(file, f"its columns are stored as {', '.join(sorted(others))}")


def _refusal(file: Path, problem: str) -> SignatureError:
    return SignatureError(f"{file} is no file of an index: {printable(problem, 200)}; {REMEDY}")
