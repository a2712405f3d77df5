"""Known: the models of an index as a search sees them, rows in memory, and entries of those that are asked for.

What of an index could not be read is told once and in few sentences, however much it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.index.key import BITS
from hf_lineage.index.storage.shards import NAMES, SEARCHED, Entry, keys_of, libraries, schema, without_revision

Fits = Callable[[Any], NDArray[np.bool_]]
"""Which rows of a group are meant."""


@dataclass(frozen=True)
class Known:
    """Models of an index, a row for each and path; one that is being joined to others may be there twice."""

    groups: tuple[Any, ...]
    """Record batches of pyarrow, by the schema of an index."""
    chosen: tuple[NDArray[np.int64], ...] | None = None
    """Of each group the rows that are meant; None for all."""

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.groups else 0

    @property
    def keys(self) -> NDArray[np.uint8]:
        """(n, BITS / 8): the key of each."""
        return np.concatenate([np.zeros((0, BITS // 8), np.uint8), *self.keys_by_group])

    @property
    def keys_by_group(self) -> list[NDArray[np.uint8]]:
        """The same group by group, without a copy where all rows of a group are meant."""
        keys = [keys_of(rows) for rows in self.groups]
        if self.chosen is None:
            return keys
        return [one if len(rows) == len(one) else one[rows] for one, rows in zip(keys, self.chosen, strict=True)]

    def entry(self, row: int) -> Entry:
        """Return the model in a row."""
        at = int(np.searchsorted(self._ends, row, side="right"))
        within = row - (int(self._ends[at - 1]) if at else 0)
        return entries_of(self.groups[at].slice(within if self.chosen is None else self.chosen[at][within], 1))[0]

    def entries(self, rows: Sequence[int] | None = None) -> list[Entry]:
        """Return the models in some rows, or in all."""
        if rows is not None:
            return [self.entry(row) for row in rows]
        chosen = self.chosen or (None,) * len(self.groups)
        some = (own if at is None else own.take(at) for own, at in zip(self.groups, chosen, strict=True))
        return [entry for own in some for entry in entries_of(own)]

    def like(self, asked: Entry) -> Known:
        """Return those that can be compared with a model: along one path, equally wide, by one recipe."""
        return self._where(equal(**{name: getattr(asked, name) for name in SEARCHED}))

    def along(self, path: str) -> int:
        """Return how many models there are along one path."""
        return len(self.wide(path))

    def wide(self, path: str, widths: Collection[int] | None = None) -> Known:
        """Return those along one path whose stream has one of these widths, by default any."""

        def fits(rows: Any) -> NDArray[np.bool_]:
            alike = equal(path=path)(rows)
            return alike if widths is None else alike & np.isin(rows["width"].to_numpy(), sorted(widths))

        return self._where(fits)

    def without(self, model: str, commit: str) -> Known:
        """Return all but one model."""
        own = equal(model=without_revision(model, commit), commit=commit)
        return self._where(lambda rows: ~own(rows))

    def own(self) -> Known:
        """Return those whose signatures are in the index itself."""
        return self.pulled("")

    def pulled(self, source: str) -> Known:
        """Return those whose signatures are in one index on the Hub, at one commit."""
        return self._where(equal(source=source))

    def _where(self, fits: Fits) -> Known:
        chosen = self.chosen or tuple(np.arange(len(rows)) for rows in self.groups)
        some = tuple(at[fits(rows)[at]] for rows, at in zip(self.groups, chosen, strict=True))
        return Known(self.groups, some)

    def table(self) -> Any:
        """Return all of it as one table of pyarrow."""
        arrow, _ = libraries()
        return arrow.Table.from_batches(self.groups, schema())

    @functools.cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([len(one) for one in (self.groups if self.chosen is None else self.chosen)], dtype=np.int64)


def equal(**values: str | int) -> Fits:
    """Return what tells in which rows some columns have these values."""
    # A name that is no Unicode, as a folder may have it, equals none that is stored.
    plain = {
        name: value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
        for name, value in values.items()
    }

    def fits(rows: Any) -> NDArray[np.bool_]:
        import pyarrow.compute as compute

        same = [compute.equal(rows[name], value).to_numpy(zero_copy_only=False) for name, value in plain.items()]
        alike: NDArray[np.bool_] = np.logical_and.reduce(same)
        return alike

    return fits


def entries_of(rows: Any) -> list[Entry]:
    """Return the models of rows by the schema of an index."""
    columns = [rows[name].to_pylist() for name in NAMES]
    return [Entry(*values) for values in zip(*columns, strict=True)]


@dataclass
class Passed:
    """What was passed over, by its name, and why."""

    shards: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    """By the model."""

    @property
    def notes(self) -> list[str]:
        """One sentence for files of keys, and one for signatures; none where all was read."""
        return [
            *_note("files of the index", self.shards),
            *_note("models of the index", self.signatures),
        ]


def _note(what: str, problems: Mapping[str, str]) -> list[str]:
    if not problems:
        return []
    first = next(iter(problems.values()))
    return [f"{len(problems)} {what} could not be read and were left out; the first: {first}"]
