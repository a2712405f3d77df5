"""Received: the shards of an index that somebody else published, read as untrusted input, a group of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.errors import RepositoryError, SignatureError
from hf_lineage.hub import listing
from hf_lineage.index.storage.catalogue import ENDING, KEYS
from hf_lineage.index.storage.reader import RECEIVED, Reader
from hf_lineage.index.storage.shards import LARGEST, MOST_ROWS, libraries, schema

MOST_SHARDS = 1000
"""Shards of one index that are read."""
LARGEST_INDEX = 2**31
"""Bytes of all shards together."""


def shards_of(name: str, commit: str) -> dict[str, listing.Entry]:
    """Return the shards of an index on the Hub at a commit; none where it has no folder of keys.

    Raise RepositoryError for more of them, or larger ones, than are read.
    """
    try:
        files = listing.tree(name, commit, KEYS, listing.DATASET)
    except RepositoryError:
        return {}
    shards = {file: entry for file, entry in files.items() if file.endswith(ENDING)}
    size = sum(entry.size for entry in shards.values())
    if len(shards) > MOST_SHARDS or size > LARGEST_INDEX:
        raise RepositoryError(
            f"{name} has {len(shards)} files of keys of {size} bytes, and hf-lineage reads at most {MOST_SHARDS} of "
            f"{LARGEST_INDEX >> 30} GiB; it is not an index"
        )
    return shards


@dataclass
class Received:
    """The rows of an index on the Hub at a commit, a record batch at a time, each with where its signature is.

    A shard that cannot be read is told, and the others are read all the same; of one that is damaged further on, the
    groups of rows before that are taken.
    """

    name: str
    commit: str
    rows: int = 0
    """Those that were read so far."""
    unread: list[str] = field(default_factory=list)
    """Of each shard that cannot be read the reason, in one sentence."""

    @property
    def source(self) -> str:
        """Where the signatures are, as rows say it."""
        return f"{self.name}@{self.commit}"

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows; raise RepositoryError for more of them than are read."""
        with Reader() as reader:
            for file in shards_of(self.name, self.commit):
                place = listing.fetched(self.name, self.commit, file, listing.DATASET, LARGEST)
                try:
                    for rows in reader.groups(place, RECEIVED, called=f"{self.name}: {file}"):
                        self.rows += len(rows)
                        if self.rows > MOST_ROWS:
                            raise RepositoryError(f"{self.name} has more than {MOST_ROWS} rows; it is not an index")
                        yield self._with_source(rows)
                except SignatureError as error:
                    self.unread.append(str(error))

    def _with_source(self, rows: Any) -> Any:
        arrow, _ = libraries()
        source = arrow.array([self.source] * len(rows), arrow.string())
        return rows.set_column(schema().get_field_index("source"), schema().field("source"), source)


def table(name: str, commit: str) -> Any:
    """Return every row of an index on the Hub at a commit, with where its signature is; LineageError if damaged."""
    arrow, _ = libraries()
    received = Received(name, commit)
    rows = arrow.Table.from_batches(list(received), schema())
    if received.unread:
        raise SignatureError(received.unread[0])
    return rows
