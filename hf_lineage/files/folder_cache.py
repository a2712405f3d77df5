"""Cache of one repository's folder: each folder is listed once, and each small file is read once.

A cache belongs to one check: a file may change before the next check.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hf_lineage.files.paths import is_folder

LARGEST_CACHED = 2**24
"""Bytes of a file that are kept in memory."""


class Entries(NamedTuple):
    """The names in a folder; what is neither a file nor a folder is in none of them."""

    files: frozenset[str]
    folders: frozenset[str]


@dataclass(eq=False)
class FolderCache:
    """The listings and the contents of files that were read so far, by path."""

    entries: dict[Path, Entries] = field(default_factory=dict)
    heads: dict[Path, tuple[int, bytes]] = field(default_factory=dict)
    """Path -> number of bytes that were asked for, and the bytes that the file had of them."""
    objects: dict[Path, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """Path -> size of a JSON file in bytes, and the object in it."""

    def listed(self, folder: Path) -> Entries:
        """Return the names in a folder; none where there is no such folder. Raise OSError if it cannot be listed."""
        if folder not in self.entries:
            self.entries[folder] = _listed(folder)
        return self.entries[folder]

    def head(self, path: Path, size: int, read: Callable[[], bytes | None]) -> bytes | None:
        """Return the first bytes of a file, of which at least as many were read before, or are read now."""
        asked, known = self.heads.get(path, (-1, b""))
        if asked >= size or len(known) < asked:
            return known[:size]
        content = read()
        if content is not None and len(content) <= LARGEST_CACHED:
            self.heads[path] = size, content
        return content

    def json_object(self, path: Path, largest: int, read: Callable[[], str | None]) -> dict[str, Any] | None:
        """Return the object in a JSON file of at most so many bytes, which is read now if it was not before.

        None if there is no such file; raise ValueError, whose message begins with a verb, if it is anything else.
        """
        size, known = self.objects.get(path, (largest + 1, {}))
        if size <= largest:
            return dict(known)
        text = read()
        if text is None:
            return None
        content = _json_object(text)
        if len(text) <= LARGEST_CACHED:
            self.objects[path] = len(text.encode()), content
        return dict(content)

    def forget_listings(self) -> None:
        """Take note that files came into the folders."""
        self.entries.clear()


def _listed(folder: Path) -> Entries:
    if not is_folder(str(folder)):
        return Entries(frozenset(), frozenset())
    with os.scandir(folder) as scan:
        entries = list(scan)
    files = frozenset(entry.name for entry in entries if _holds(entry.is_file))
    return Entries(files, frozenset(entry.name for entry in entries if _holds(entry.is_dir)))


def _holds(kind: Callable[[], bool]) -> bool:
    """Return whether an entry is of a kind; a link that leads back to itself is of none."""
    with contextlib.suppress(OSError):
        return kind()
    return False


def _json_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"holds a {type(content).__name__}, not an object")  # noqa: TRY004 - of what was read
    return content
