"""Removing: models that are named are taken out of an index, all of them or none."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from hf_lineage.checking.source import is_path
from hf_lineage.errors import OptionError, printable
from hf_lineage.files import is_folder, remove_file, typed
from hf_lineage.index.storage import Catalogue, Entry, Known, identities, shards, signature_file

SHORTEST = 7
"""Digits of a commit that stand for it."""


def remove(models: Sequence[str], catalogue: Catalogue) -> None:
    """Take models out of an index, at every commit or at the one that is named.

    Raise OptionError, before anything is changed, for one that is not in it, and SignatureError if it cannot be
    written. Rows go before signatures, so that no row is without one however this ends.
    """
    if not is_folder(str(catalogue.folder)):
        raise OptionError(f"{printable(catalogue.folder, 200)} does not exist, so there is no index; check --index")
    held = list(catalogue.by_file())
    entries = Known(tuple(rows for _, groups in held for rows in groups)).entries()
    gone = {entry.identity: entry for model in models for entry in _meant(model, entries, catalogue)}
    for file, groups in held:
        rows = Known(tuple(groups)).table()
        left = rows.filter(np.array([one.hex() not in gone for one in identities(rows)], np.bool_))
        if len(left) == len(rows):
            continue
        if len(left):
            content = shards.content(left)
            catalogue.write_keys(content, hashlib.sha256(content).hexdigest()[:32])
        remove_file(file)
    for entry in gone.values():
        remove_file(catalogue.folder / signature_file(entry))


def _meant(model: str, entries: Sequence[Entry], catalogue: Catalogue) -> Iterator[Entry]:
    """The entries of a model."""
    chosen = [entry for entry in entries if _is_meant(model, entry)]
    if not chosen:
        listing = shlex.join(["hf-lineage", "index", "list", "--index", typed(catalogue.folder)])
        unread = "".join(f"; {note}" for note in catalogue.passed.notes)
        why = f"is not in the index, so nothing was removed; `{listing}` shows what is{unread}"
        raise OptionError(f"{printable(model, 200)} {why}")
    yield from chosen


def _is_meant(model: str, entry: Entry) -> bool:
    """Whether a name means an entry: as it is listed, a folder by any path, and one of the Hub in any case."""
    if model == entry.model or (is_path(model) and not entry.commit and is_path(entry.model)):
        return os.path.normpath(Path.cwd() / model) == os.path.normpath(Path.cwd() / entry.model)
    name, at, commit = model.partition("@")
    whole = len(commit) >= SHORTEST and entry.commit.startswith(commit)
    return name.casefold() == entry.model.casefold() and (whole if at else True)
