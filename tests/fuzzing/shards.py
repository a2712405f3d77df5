"""Shards of an index, changed a little: their footer for the most part, which makes pyarrow abort its process."""

import atexit
import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hf_lineage.errors import SignatureError
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.reader import RECEIVED, Reader
from hf_lineage.index.storage.shards import Entry
from tests.fuzzing.changes import spliced

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")


class ContainedError(SignatureError):
    """A case that ended the process that read it, and nothing else."""


def key_files() -> Callable[[Random], bytes]:
    """Shards of one model and of many, with bytes changed in the footer or anywhere, or pieces of them."""
    rng = np.random.default_rng(0)
    valid = [
        shards.encoded(
            [replace(ENTRY, model=f"org/{row}", width=64 + row % 3) for row in range(count)],
            rng.integers(0, 256, (count, 256), np.uint8),
        )
        for count in (1, 3, 40)
    ]

    def case(random: Random) -> bytes:
        content = random.choice(valid)
        start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        how = random.randrange(8)
        if how == 0:
            return spliced(random, content)
        if how == 1:
            footer = spliced(random, content[start:-8])
            return content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        changed = bytearray(content)
        for _ in range(random.randrange(1, 4)):
            changed[random.randrange(0 if how == 2 else start, len(content))] = random.randrange(256)
        return bytes(changed)

    return case


@functools.cache
def _reader() -> Reader:
    """One process for all cases; it is replaced when a case ends it."""
    reader = Reader().__enter__()
    atexit.register(reader.close)
    return reader


def keys_read(file: Path) -> Any:
    """Every row of a shard, as it is read of an index on the Hub."""
    try:
        return [rows.to_pylist() for rows in _reader().groups(file, RECEIVED)]
    except SignatureError as error:
        if "the process that read it ended" in str(error):
            raise ContainedError(str(error)) from None
        raise
