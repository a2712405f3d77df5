"""Known: the models of an index as a search sees them: keys in memory, names only of those that are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.index.key import BITS
from hf_lineage.index.shards import (
    NAMES,
    ROWS,
    SEARCHED,
    Entry,
    keys_of,
    libraries,
    opened,
    rows_of,
    schema,
    without_revision,
)

SMALL = 2**22
"""Bytes of a shard below which all of it is read at once, so that few files stay open."""


@dataclass(frozen=True)
class Part:
    """The rows of one shard."""

    searched: Any
    """A table of pyarrow: what a search compares, and the keys."""
    file: Path
    shard: Any = None
    """The opened file, of which names are read later; None where the table has all columns."""

    @classmethod
    def of(cls, file: Path) -> Part:
        """Return the rows of a file; SignatureError if it is damaged, FileNotFoundError if it is gone."""
        shard = opened(file)
        if file.stat().st_size < SMALL:
            return cls(rows_of(file, shard, (*NAMES, "key")), file)
        return cls(rows_of(file, shard, (*SEARCHED, "key")), file, shard)

    def like(self, asked: Entry) -> NDArray[np.bool_]:
        """Return which rows can be compared with a model: along one path, equally wide, by one recipe."""
        import pyarrow.compute as compute

        same = [compute.equal(self.searched[name], getattr(asked, name)).to_numpy() for name in SEARCHED]
        alike: NDArray[np.bool_] = np.logical_and.reduce(same)
        return alike

    def named(self) -> Iterator[tuple[str, str]]:
        """Return the name and the commit of the model in each row."""
        names = ("model", "commit")
        rows = self.searched if self.shard is None else rows_of(self.file, self.shard, names)
        return zip(*(rows[name].to_pylist() for name in names), strict=True)

    def entries(self, rows: NDArray[np.int64] | None) -> list[Entry]:
        """Return the models in some rows, or in all."""
        if self.shard is None:
            return entries_of(self.searched if rows is None else self.searched.take(rows))
        if rows is None:
            return entries_of(rows_of(self.file, self.shard, NAMES))
        return [self._entry(int(row)) for row in rows]

    def _entry(self, row: int) -> Entry:
        group, within = divmod(row, ROWS)
        return entries_of(rows_of(self.file, self.shard, NAMES, group).slice(within, 1))[0]


@dataclass(frozen=True)
class Known:
    """Models of an index, a row for each and path; one that is being joined to others may be there twice."""

    parts: tuple[Part, ...]
    chosen: tuple[NDArray[np.int64], ...] | None = None
    """Of each part the rows that are meant; None for all."""

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.parts else 0

    @property
    def keys(self) -> NDArray[np.uint8]:
        """(n, BITS / 8): the key of each, without a copy where all are in one part."""
        keys = self.keys_by_part
        return keys[0] if len(keys) == 1 else np.concatenate([np.zeros((0, BITS // 8), np.uint8), *keys])

    @property
    def keys_by_part(self) -> list[NDArray[np.uint8]]:
        """The same part by part, without a copy where all rows of a part are meant."""
        keys = [keys_of(part.searched) for part in self.parts]
        if self.chosen is None:
            return keys
        return [one if len(rows) == len(one) else one[rows] for one, rows in zip(keys, self.chosen, strict=True)]

    def entry(self, row: int) -> Entry:
        """Return the model in a row."""
        return self.entries([row])[0]

    def entries(self, rows: Sequence[int] | None = None) -> list[Entry]:
        """Return the models in some rows, or in all."""
        if rows is None:
            chosen = self.chosen or (None,) * len(self.parts)
            return [entry for part, some in zip(self.parts, chosen, strict=True) for entry in part.entries(some)]
        return [self._entry(row) for row in rows]

    def like(self, asked: Entry) -> Known:
        """Return those that can be compared with a model: along one path, equally wide, by one recipe."""
        return self._where(lambda part: part.like(asked))

    def along(self, path: str) -> int:
        """Return how many models there are along one path."""
        return len(self.wide(path))

    def wide(self, path: str, widths: Collection[int] | None = None) -> Known:
        """Return those along one path whose stream has one of these widths, by default any."""

        def fits(part: Part) -> NDArray[np.bool_]:
            import pyarrow.compute as compute

            alike: NDArray[np.bool_] = compute.equal(part.searched["path"], path).to_numpy()
            if widths is not None:
                alike = alike & np.isin(part.searched["width"].to_numpy(), sorted(widths))
            return alike

        return self._where(fits)

    def without(self, model: str, commit: str) -> Known:
        """Return all but one model."""
        own = (without_revision(model, commit), commit)
        return self._where(lambda part: np.array([named != own for named in part.named()], np.bool_))

    def _where(self, fits: Callable[[Part], NDArray[np.bool_]]) -> Known:
        chosen = self.chosen or tuple(np.arange(len(part.searched)) for part in self.parts)
        return Known(self.parts, tuple(rows[fits(part)[rows]] for part, rows in zip(self.parts, chosen, strict=True)))

    def table(self) -> Any:
        """Return all of it as one table of pyarrow."""
        arrow, _ = libraries()
        tables = [
            part.searched if part.shard is None else rows_of(part.file, part.shard, (*NAMES, "key"))
            for part in self.parts
        ]
        return arrow.concat_tables([schema().empty_table(), *tables])

    @functools.cached_property
    def _ends(self) -> NDArray[np.int64]:
        sizes = (
            [len(part.searched) for part in self.parts] if self.chosen is None else [len(one) for one in self.chosen]
        )
        return np.cumsum(sizes, dtype=np.int64)

    def _entry(self, row: int) -> Entry:
        at = int(np.searchsorted(self._ends, row, side="right"))
        within = row - (int(self._ends[at - 1]) if at else 0)
        rows = np.array([within]) if self.chosen is None else self.chosen[at][within : within + 1]
        return self.parts[at].entries(rows)[0]


def entries_of(table: Any) -> list[Entry]:
    """Return the models of a table by the schema of an index."""
    columns = [table[name].to_pylist() for name in NAMES]
    return [Entry(*values) for values in zip(*columns, strict=True)]
