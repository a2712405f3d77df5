"""Decoding: Parquet that anybody may have written -> rows in Arrow's format, in a process that may end by it.

pyarrow aborts the process in which it meets certain files. So nothing else opens Parquet: `reader` starts this module,
names one file after the other on its standard input and gets the rows on its standard output, in frames.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from hf_lineage.index.key import BITS, VERSION
from hf_lineage.index.storage.shards import LARGEST, ROWS, STAMP, libraries, schema

HEAD = struct.Struct("<cQ")
"""Of a frame: what it is, and the bytes that follow."""
GROUP, END, GONE, PROBLEM = b"R", b"E", b"G", b"P"
"""The rows of a group, the end of a file, a file that is not there, and what is wrong with one."""
MOST_BYTES = ROWS * 2**10
"""Bytes of the rows of a group, which are some 350 a row."""
MEMORY = 2**30
"""Bytes that this process may hold."""
SECONDS = 120
"""Of computing for one file."""
ENCODINGS = frozenset({"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"})
"""How columns may be stored: by these a value is as long in memory as in the file."""


def main() -> None:
    """Answer one request a line until there are no more, within the limits."""
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_AS", MEMORY)
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no frame
    arrow, _ = libraries()
    arrow.set_cpu_count(1)
    arrow.set_io_thread_count(1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit("RLIMIT_CPU", int(sum(os.times()[:2])) + SECONDS)
        answer(frames, Path(request["file"]), request["columns"], request["longest"])


def answer(frames: IO[bytes], file: Path, columns: Sequence[str], longest: int) -> None:
    """Write some columns of a file as frames, or what is wrong with it."""
    try:
        for rows in groups(file, columns, longest):
            _send(frames, GROUP, rows.serialize())
    except FileNotFoundError:
        _send(frames, GONE)
    except BrokenPipeError:
        raise
    except Exception as error:  # whatever pyarrow makes of bytes that are no Parquet
        _send(frames, PROBLEM, str(error).encode(errors="replace")[:2000] or type(error).__name__.encode())
    else:
        _send(frames, END)


def groups(file: Path, columns: Sequence[str], longest: int) -> Iterator[Any]:
    """Yield the rows of a shard, a record batch for each group; raise for what is none, or has a longer text."""
    arrow, parquet = libraries()
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("it is not a plain file")
    with arrow.OSFile(str(file)) as source:
        metadata = parquet.read_metadata(source)
        if problem := _problem(source.size(), metadata):
            raise ValueError(problem)
        wanted = arrow.schema([schema().field(name) for name in columns])
        texts = [field.name for field in wanted if field.type == arrow.string()]
        shard = parquet.ParquetFile(source, metadata=metadata, read_dictionary=texts)
        for column in schema():
            actual = shard.schema_arrow.field(column.name).type
            if (actual.value_type if arrow.types.is_dictionary(actual) else actual) != column.type:
                raise ValueError(f"its column {column.name} is of the type {actual}")
        for number in range(metadata.num_row_groups):
            rows = shard.read_row_group(number, list(columns), use_threads=False)
            rows.validate(full=True)
            _refuse_long(rows, texts, longest)
            yield from _bounded(rows.cast(wanted).combine_chunks().to_batches())


def _problem(size: int, metadata: Any) -> str:
    """What is wrong with a footer: no shard's, more rows than its bytes can hold, or pages that grow when read."""
    stamp = (metadata.metadata or {}).get(b"hf_lineage_index")
    if stamp is None or metadata.schema.names != schema().names:
        return f"it has the columns {', '.join(metadata.schema.names[:10])}"
    if stamp != STAMP[b"hf_lineage_index"]:
        return f"its keys are of version {stamp.decode(errors='replace')}, not {VERSION}"
    if size > LARGEST or metadata.num_rows * BITS // 8 > size:
        return f"it has {size} bytes and {metadata.num_rows} rows, more than it can hold or is allowed to"
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(at) for at in range(group.num_columns)]
        if group.num_rows != min(ROWS, metadata.num_rows - number * ROWS):
            return f"its groups do not have {ROWS} rows each"
        if any(column.compression != "UNCOMPRESSED" or column.num_values != group.num_rows for column in columns):
            return "it is compressed, or its columns have different lengths"
        if others := {encoding for column in columns for encoding in column.encodings} - ENCODINGS:
            return f"its columns are stored as {', '.join(sorted(others))}"
    return ""


def _refuse_long(rows: Any, texts: Sequence[str], longest: int) -> None:
    """Refuse a text that is too long while each that is repeated is held once."""
    for name in texts:
        for chunk in rows[name].chunks:
            values = chunk.dictionary
            if len(values):
                ends = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
                if np.diff(ends).max() > longest:
                    raise ValueError(f"a {name} is longer than {longest} bytes")


def _bounded(batches: Sequence[Any]) -> Iterator[Any]:
    for batch in batches:
        if batch.nbytes > MOST_BYTES:
            raise ValueError(f"its rows are longer than {MOST_BYTES // ROWS} bytes on average")
        yield batch


def _send(frames: IO[bytes], kind: bytes, content: Any = b"") -> None:
    frames.write(HEAD.pack(kind, len(content)))
    frames.write(content)
    frames.flush()


def _limit(name: str, most: int) -> None:
    """Set a limit of this process, where the system has it."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        limit = getattr(resource, name)
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
