"""Catalogue: the index on disk, a folder of Parquet files with keys, and the signatures that they were made of.

Each model is written in one step into a file of its own, so that a run that is killed loses at most the model it was
reading, and several may write at once. Many small files are joined into one; `compact` joins all of them. What cannot
be read is passed over, and noted once: nobody loses an answer to a file that is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hf_lineage.errors import LineageError, NetworkError, SignatureError, printable
from hf_lineage.files import make_folder, places, write_atomically
from hf_lineage.hub import listing
from hf_lineage.index.key import BITS, Key, key_of
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.known import Known, Passed
from hf_lineage.index.storage.reader import OWN, Reader, wrong
from hf_lineage.index.storage.shards import (
    IDENTIFYING,
    MOST_ROWS,
    NAMES,
    ROWS,
    Entry,
    identities,
    merged,
    without_revision,
)
from hf_lineage.signature import Signature, by_path
from hf_lineage.signature.sources import encode, load_signature

KEYS, SIGNATURES = "keys", "signatures"
"""The folders of an index."""
ENDING = ".parquet"
SMALL = 2**22
"""Bytes of a file of keys below which it is joined to others."""
MANY = 1000
"""Small files of keys from which on they are joined when the next model is added."""
LARGEST_SIGNATURE = 2**30
"""Bytes of a signature that is fetched."""


@dataclass(frozen=True)
class Record:
    """What an index keeps of one model along one path."""

    entry: Entry
    key: Key
    signature: bytes
    """As a file."""


@dataclass(frozen=True)
class Catalogue:
    """An index; its folder need not exist before a model is added."""

    folder: Path
    passed: Passed = field(default_factory=Passed, compare=False, repr=False)
    """What could not be read of it so far."""

    def add(self, signature: Signature) -> list[Entry]:
        """Put a model into the index, along every path of its signature; one that is there is replaced."""
        return [self.put(record) for record in records_of(signature)]

    def put(self, record: Record) -> Entry:
        """Write what is kept of a model; the signature first, so that no row is without one however this ends."""
        file = self.folder / signature_file(record.entry)
        make_folder(file.parent)
        write_atomically(file, record.signature)
        self.write_keys(shards.encoded([record.entry], record.key[None]), record.entry.identity)
        if len(small := list(self._small())) > MANY:
            self._join(small)
        return record.entry

    def merge(self, batches: Iterable[Any]) -> int:
        """Put rows of another index into this one, group by group; return how many there were not here before.

        If reading them raises, nothing is written.
        """
        known = {one for _, groups in self.by_file(IDENTIFYING) for rows in groups for one in identities(rows)}
        return merged(batches, known, self.folder / KEYS, ENDING)

    def commits(self, labels: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return by model the commits at which it is in the index along all paths, given the label for each."""
        return self._complete(self.read(), labels)

    def own_commits(self, labels: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return the same of models whose signatures are in the index itself, and not where it was pulled from."""
        return self._complete(self.read().own(), labels)

    def _complete(self, known: Known, labels: Mapping[str, str]) -> dict[str, frozenset[str]]:
        complete: dict[tuple[str, str], set[str]] = {}
        for entry in known.entries():
            there = entry.source or (self.folder / signature_file(entry)).is_file()
            if there and entry.commit and labels.get(entry.path) == entry.recipe:
                complete.setdefault((entry.model, entry.commit), set()).add(entry.path)
        by_model: dict[str, frozenset[str]] = {}
        for (model, commit), paths in complete.items():
            if len(paths) == len(labels):
                by_model[model] = by_model.get(model, frozenset()) | {commit}
        return by_model

    def read(self) -> Known:
        """Return every model and its key; files that cannot be read are passed over."""
        return Known(tuple(rows for _, groups in self.by_file() for rows in groups))

    def tested(self, entry: Entry) -> Signature | None:
        """Return the signature of a model of the index; None where it cannot be had, which is noted.

        Raise NetworkError where the Hub cannot be asked for it: another time it may be there.
        """
        try:
            return self.signature(entry)
        except NetworkError:
            raise
        except LineageError as error:
            self.passed.signatures.setdefault(entry.model, str(error))
            return None

    def signature(self, entry: Entry) -> Signature:
        """Return the signature of a model of the index; LineageError if it is missing or damaged."""
        file = self.signature_path(entry)
        if not file.is_file():
            raise SignatureError(f"{printable(entry.model, 200)} has no signature in the index; add the model again")
        signature = load_signature(file)
        if entry_of(signature, entry.path) != entry:
            raise SignatureError(f"{file} is not the signature of {printable(entry.model, 200)}; add the model again")
        return signature

    def signature_path(self, entry: Entry) -> Path:
        """Return the file of a signature, fetched from the index on the Hub that has it where it is not here."""
        file = self.folder / signature_file(entry)
        if file.is_file() or not entry.source:
            return file
        name, _, commit = entry.source.partition("@")
        return listing.fetched(name, commit, signature_file(entry), listing.DATASET, LARGEST_SIGNATURE)

    def compact(self) -> None:
        """Join the files of keys into one. A model that is added meanwhile is not lost: its file is not joined."""
        files = list(self.files())
        if len(files) > 1:
            self._join(files)

    def files(self) -> Iterator[Path]:
        """Return the files of keys."""
        return iter(sorted((self.folder / KEYS).glob(f"*{ENDING}")))

    def _small(self) -> Iterator[Path]:
        for file in self.files():
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_size < SMALL:
                    yield file

    def _join(self, files: Sequence[Path]) -> None:
        read = dict(self._read(files))
        if len(read) < 2:
            return
        known = Known(tuple(rows for groups in read.values() for rows in groups))
        content = shards.content(shards.sorted_rows(known.table()))
        joined = self.write_keys(content, hashlib.sha256(content).hexdigest()[:32])
        for file in read:
            if file != joined:
                with contextlib.suppress(OSError):
                    file.unlink()

    def by_file(self, columns: Sequence[str] = (*NAMES, "key")) -> Iterator[tuple[Path, list[Any]]]:
        """Return the files of keys that can be read, each with some of its columns as groups of rows."""
        shards.libraries()
        files = list(self.files())
        return self._read(files, columns) if files else iter(())

    def _read(
        self, files: Iterable[Path], columns: Sequence[str] = (*NAMES, "key")
    ) -> Iterator[tuple[Path, list[Any]]]:
        left = MOST_ROWS
        with Reader() as reader:
            for file in files:
                try:
                    groups = list(islice(reader.groups(file, OWN, columns), MOST_ROWS // ROWS + 1))
                except FileNotFoundError:  # another process has joined it to others
                    continue
                except SignatureError as error:
                    self.passed.shards[file.name] = str(error)
                    continue
                left -= sum(map(len, groups))
                if left < 0:
                    self.passed.shards[file.name] = f"{file} is left out: an index may have {MOST_ROWS} rows"
                    return
                yield file, groups

    def write_keys(self, content: bytes, name: str) -> Path:
        """Write a file of keys, and return it."""
        file = self.folder / KEYS / f"{name}{ENDING}"
        make_folder(file.parent)
        write_atomically(file, content)
        return file


def records_of(signature: Signature) -> list[Record]:
    """Return what an index keeps of a model, along every path of its signature."""
    return [
        Record(readable(entry_of(signature, path)), key_of(single.paths[path]), encode(single))
        for path, single in by_path(signature).items()
    ]


def signature_file(entry: Entry) -> str:
    """Return where the signature of a model is in an index; in many folders, for a folder holds some thousand well."""
    return f"{SIGNATURES}/{entry.identity[:2]}/{entry.identity}.safetensors"


def default_folder() -> Path:
    """Return the place of the index of this user: HF_LINEAGE_INDEX, by default in HF_HOME.

    Raise OptionError if HF_LINEAGE_INDEX names a place in a git checkout.
    """
    from huggingface_hub import constants

    return places.outside_checkouts(places.INDEX) or Path(constants.HF_HOME) / "lineage" / "index"


def entry_of(signature: Signature, path: str) -> Entry:
    """Return the entry of a model along one path of its signature."""
    commit = signature.commit or ""
    layers, label = len(signature.numbers(path)), signature.recipe.label(path)
    return Entry(without_revision(signature.model, commit), commit, path, signature.width, layers, label)


def readable(entry: Entry) -> Entry:
    """Return an entry; raise SignatureError if it could not be read back, and would make others unreadable with it."""
    (rows,) = shards.rows([entry], np.zeros((1, BITS // 8), np.uint8)).to_batches()
    if problem := wrong(rows, OWN):
        raise SignatureError(f"{printable(entry.model, 200)} cannot be in an index: {printable(problem, 200)}")
    return entry
