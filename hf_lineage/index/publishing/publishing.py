"""Publishing: an index as a repository of data on the Hub, to which several add, and which others search.

Everybody adds files of their own, on top of the commit that was read, and entries are never taken out. A repository of
many files of keys is joined into one by a commit that the Hub refuses if anything was added in between.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hf_lineage.errors import BranchMovedError, OptionError, RepositoryError, SignatureError, printable
from hf_lineage.files import is_folder, make_folder, open_regular, write_atomically
from hf_lineage.hub import client, commits, hub_name, listing
from hf_lineage.index import storage
from hf_lineage.index.publishing import card
from hf_lineage.index.storage import received, shards
from hf_lineage.signature.sources import cache

TRIES = 10
"""How often a push begins again because others committed."""
AT_ONCE = 100
"""Signatures of one commit."""
JOINED = 50
"""Files of keys from which on a push joins them into one."""
PRIVATE = 0o700
UNREAD = "unread.txt"
"""In an index that was pulled, a line for each file of it that could not be read."""
LARGEST_NOTES = 2**20
"""Bytes of these that are read."""


@dataclass(frozen=True)
class Pushed:
    """What a push did."""

    address: str
    """Of the commit; empty where the repository has everything already."""
    added: int
    """Entries: one for each model and path."""
    of: int
    """Entries of the repository now."""
    left_out: int
    """Entries of folders, which have no name that others know."""


@dataclass(frozen=True)
class Pulled:
    """What a pull did."""

    commit: str
    added: int
    of: int
    """Entries of the repository."""
    unread: tuple[str, ...] = ()
    """Of each of its files that cannot be read the reason, in one sentence."""


def push(catalogue: storage.Catalogue, name: str, private: bool = False) -> Pushed:
    """Add the models of an index to a repository of data on the Hub, which is made if there is none.

    What is there stays, and so does what others add in the meantime. Raise OptionError for an index without a model of
    the Hub, and LineageError as `commits.commit` does.
    """
    _check_name(name)
    rows = catalogue.read().table()
    named = rows.filter(np.asarray([bool(commit) for commit in rows["commit"].to_pylist()], np.bool_))
    if not len(named):
        shown = printable(catalogue.folder, 200)
        raise OptionError(f"{shown} holds no models of the Hub, so nothing can be pushed; add some, or check --index")
    commits.create(name, listing.DATASET, private)
    for _ in range(TRIES - 1):
        with contextlib.suppress(BranchMovedError):
            return _pushed(catalogue, name, named, len(rows) - len(named))
    return _pushed(catalogue, name, named, len(rows) - len(named))


def _pushed(catalogue: storage.Catalogue, name: str, rows: Any, left_out: int) -> Pushed:
    head = listing.head(name, kind=listing.DATASET)
    there = received.table(name, head)
    new = _without(rows, there)
    if not len(new):
        return Pushed("", 0, len(there), left_out)
    message = f"Add {len(new)} entries"
    head = _send_signatures(catalogue, name, head, storage.entries_of(new), message)
    everything = shards.sorted_rows(_anywhere(shards.libraries()[0].concat_tables([there, new])))
    old = list(received.shards_of(name, head))
    many = len(old) >= JOINED
    content = shards.content(everything if many else shards.sorted_rows(_anywhere(new)))
    files: dict[str, bytes | Path | None] = dict.fromkeys(old) if many else {}
    files[f"{storage.KEYS}/{hashlib.sha256(content).hexdigest()[:32]}{storage.ENDING}"] = content
    files |= _card(name, head, everything)
    address = commits.commit(name, files, head, message, repo_type=listing.DATASET)
    return Pushed(address, len(new), len(everything), left_out)


def _send_signatures(
    catalogue: storage.Catalogue, name: str, head: str, entries: list[storage.Entry], message: str
) -> str:
    """Commit the signatures that a repository does not have, some at a time; return where its branch stands then.

    They come before the keys: a push that breaks off leaves files that nothing names, and the next one finds them.
    """
    for start in range(0, len(entries), AT_ONCE):
        some = {storage.signature_file(entry): entry for entry in entries[start : start + AT_ONCE]}
        there = listing.existing(name, head, list(some), listing.DATASET)
        files: Mapping[str, bytes | Path | None] = {
            file: _verified(catalogue, entry) for file, entry in some.items() if file not in there
        }
        if files:
            address = commits.commit(name, files, head, f"{message}: signatures", repo_type=listing.DATASET)
            head = listing.head(name, kind=listing.DATASET)
            if not address.endswith(head):
                raise BranchMovedError(f"{name}: others committed at the same time; run again")
    return head


def _verified(catalogue: storage.Catalogue, entry: storage.Entry) -> Path:
    catalogue.signature(entry)
    return catalogue.signature_path(entry)


def _card(name: str, head: str, rows: Any) -> dict[str, bytes]:
    """The card, where its figures change."""
    known = listing.existing(name, head, [commits.CARD], listing.DATASET)
    text = ""
    if known:
        text = listing.fetched(name, head, commits.CARD, listing.DATASET, 2**22).read_text("utf-8", errors="replace")
    new = card.written(text, name, rows)
    return {commits.CARD: new.encode()} if new != text else {}


def pull(name: str, catalogue: storage.Catalogue, signatures: bool = False) -> Pulled:
    """Put the models of an index on the Hub, `org/name` or `org/name@revision`, into one here.

    A signature is fetched when a model is tested against it, or with `signatures` now. Raise LineageError for what is
    no index, and where nothing of it can be read.
    """
    repo, commit = _at(name)
    rows = storage.Received(repo, commit)
    added = catalogue.merge(rows)
    if not rows.rows and rows.unread:
        raise SignatureError(rows.unread[0])
    if not rows.rows:
        raise RepositoryError(
            f"{name} holds no index: there are no rows in {storage.KEYS}/*{storage.ENDING}; check its name and revision"
        )
    if signatures:
        pulled = catalogue.read().pulled(rows.source)
        for row in range(len(pulled)):
            catalogue.tested(pulled.entry(row))
    return Pulled(commit, added, rows.rows, tuple(rows.unread))


def opened(index: str | None) -> storage.Catalogue:
    """Return the index that a user names: a folder, or a repository of data on the Hub; by default the user's own.

    Of a repository the keys are fetched, and kept by commit. Raise OptionError for a folder that is not there, and
    LineageError as `pull` does.
    """
    shards.libraries()
    if index is None:
        return storage.Catalogue(storage.default_folder())
    if is_folder(index):
        return storage.Catalogue(Path(index))
    if hub_name(index) is None or "/" not in index:
        raise OptionError(
            f"{printable(index, 200)} does not exist, and no index on the Hub has this name; add models to it first"
        )
    repo, commit = _at(index)
    kept = storage.Catalogue(cache.root() / "indexes" / repo / commit)
    if not any(kept.files()):
        make_folder(kept.folder, PRIVATE)
        done = pull(f"{repo}@{commit}", kept)
        write_atomically(kept.folder / UNREAD, "\n".join(done.unread).encode())
    kept.passed.shards.update((line, line) for line in _unread(kept.folder / UNREAD))
    return kept


def _unread(file: Path) -> list[str]:
    """What could not be read of an index when it was pulled."""
    try:
        with open_regular(file) as stream:
            return stream.read(LARGEST_NOTES).decode(errors="replace").splitlines()
    except OSError:
        return []


def _at(name: str) -> tuple[str, str]:
    """The repository that a name means, and its commit."""
    repo, _, revision = name.partition("@")
    _check_name(repo)
    if client.COMMIT.fullmatch(revision):
        return repo, revision
    return repo, listing.head(repo, revision or "main", listing.DATASET)


def _check_name(name: str) -> None:
    if hub_name(name) != name or "/" not in name:
        raise OptionError(f"{printable(name, 200)} is not a dataset repository on the Hub; name one such as org/index")


def _without(rows: Any, others: Any) -> Any:
    """The rows of models that are not among others."""
    known = set(zip(*(others[name].to_pylist() for name in storage.IDENTIFYING), strict=True))
    mine = zip(*(rows[name].to_pylist() for name in storage.IDENTIFYING), strict=True)
    return rows.filter(np.asarray([one not in known for one in mine], np.bool_))


def _anywhere(rows: Any) -> Any:
    """The same rows without where their signatures are: in the repository itself."""
    arrow, _ = shards.libraries()
    place = rows.schema.get_field_index("source")
    return rows.set_column(place, shards.schema().field("source"), arrow.array([""] * len(rows), arrow.string()))
