"""Merging: rows that come group by group -> one shard, without those that are known, and never all in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hf_lineage.errors import SignatureError
from hf_lineage.files import draft, make_folder, opened_folder
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.shards import IDENTIFYING, identity


def identities(rows: Any) -> Iterator[bytes]:
    """Yield what tells each row of a group from those of other models, commits, paths and recipes."""
    for named in zip(*(rows[name].to_pylist() for name in IDENTIFYING), strict=True):
        yield bytes.fromhex(identity(*named))


def merged(batches: Iterable[Any], known: set[bytes], folder: Path, ending: str) -> int:
    """Write the rows that are not known as one shard, which is there whole or not at all; return how many there are."""
    make_folder(folder)
    try:
        with opened_folder(folder) as opened, draft(opened) as new:
            count = shards.write(_new(batches, known), new.stream)
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
