"""Catalogue: the index on disk, a folder of Parquet files with keys, and the signatures that they were made of.

Each model is written in one step into a file of its own, so that a run that is killed loses at most the model it was
reading, and several may write at once. Many small files are joined into one; `compact` joins all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.errors import SignatureError, printable
from hf_lineage.files.atomic import make_folder, write_atomically
from hf_lineage.hub import trees
from hf_lineage.index import shards
from hf_lineage.index.key import Key, key_of
from hf_lineage.index.known import SMALL, Known, Part
from hf_lineage.index.shards import Entry, without_revision
from hf_lineage.signature.store import encode, load_signature
from hf_lineage.signature.values import Signature, by_path

KEYS, SIGNATURES = "keys", "signatures"
"""The folders of an index."""
ENDING = ".parquet"
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

    def add(self, signature: Signature) -> list[Entry]:
        """Put a model into the index, along every path of its signature; one that is there is replaced."""
        return [self.put(record) for record in records_of(signature)]

    def put(self, record: Record) -> Entry:
        """Write what is kept of a model; the signature last, for a model counts as added only where both are there."""
        self._write(shards.encoded([record.entry], record.key[None]), record.entry.identity)
        file = self.folder / signature_file(record.entry)
        make_folder(file.parent)
        write_atomically(file, record.signature)
        if len(small := list(self._small())) > MANY:
            self._join(small)
        return record.entry

    def merge(self, table: Any) -> None:
        """Put rows of another index into this one, by the schema of an index."""
        content = shards.content(shards.sorted_rows(table))
        self._write(content, hashlib.sha256(content).hexdigest()[:32])

    def has(self, model: str, commit: str, labels: Mapping[str, str]) -> bool:
        """Return whether a model was added along all paths, given the label of its recipe for each."""
        entries = (Entry(without_revision(model, commit), commit, path, 0, 0, label) for path, label in labels.items())
        return all((self.folder / signature_file(entry)).is_file() for entry in entries)

    def commits(self, labels: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return by model the commits at which it is in the index along all paths, given the label for each."""
        complete: dict[tuple[str, str], set[str]] = {}
        for entry in self.read().entries():
            there = entry.source or (self.folder / signature_file(entry)).is_file()
            if there and entry.commit and labels.get(entry.path) == entry.recipe:
                complete.setdefault((entry.model, entry.commit), set()).add(entry.path)
        by_model: dict[str, frozenset[str]] = {}
        for (model, commit), paths in complete.items():
            if len(paths) == len(labels):
                by_model[model] = by_model.get(model, frozenset()) | {commit}
        return by_model

    def read(self) -> Known:
        """Return every model and its key; SignatureError for a damaged file."""
        shards.libraries()
        parts = []
        for file in self.files():
            with contextlib.suppress(FileNotFoundError):  # another process has joined it to others
                parts.append(Part.of(file))
        return Known(tuple(parts))

    def signature(self, entry: Entry) -> Signature:
        """Return the signature of a model of the index; LineageError if it is missing or damaged."""
        file = self.signature_path(entry)
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
        return trees.fetched(name, commit, signature_file(entry), trees.DATASET, LARGEST_SIGNATURE)

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

    def _join(self, files: Collection[Path]) -> None:
        parts, read = [], []
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                parts.append(Part.of(file))
                read.append(file)
        content = shards.content(shards.sorted_rows(Known(tuple(parts)).table()))
        joined = self._write(content, hashlib.sha256(content).hexdigest()[:32])
        for file in read:
            if file != joined:
                with contextlib.suppress(OSError):
                    file.unlink()

    def _write(self, content: bytes, name: str) -> Path:
        file = self.folder / KEYS / f"{name}{ENDING}"
        make_folder(file.parent)
        write_atomically(file, content)
        return file


def records_of(signature: Signature) -> list[Record]:
    """Return what an index keeps of a model, along every path of its signature."""
    return [
        Record(entry_of(signature, path), key_of(single.paths[path]), encode(single))
        for path, single in by_path(signature).items()
    ]


def signature_file(entry: Entry) -> str:
    """Return where the signature of a model is in an index; in many folders, for a folder holds some thousand well."""
    return f"{SIGNATURES}/{entry.identity[:2]}/{entry.identity}.safetensors"


def default_folder() -> Path:
    """Return the place of the index of this user: HF_LINEAGE_INDEX, by default in HF_HOME."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_LINEAGE_INDEX") or Path(constants.HF_HOME) / "lineage" / "index").expanduser()


def entry_of(signature: Signature, path: str) -> Entry:
    """Return the entry of a model along one path of its signature."""
    commit = signature.commit or ""
    layers, label = len(signature.numbers(path)), signature.recipe.label(path)
    return Entry(without_revision(signature.model, commit), commit, path, signature.width, layers, label)
