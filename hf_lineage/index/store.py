"""Store: an index on disk, a folder of shards, or in a repository of data on the Hub."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hf_lineage.errors import LineageError, NetworkError, OptionError, RepositoryError, SignatureError, printable
from hf_lineage.files.atomic import make_folder, write_atomically
from hf_lineage.files.paths import INDEX, is_folder, outside_checkouts
from hf_lineage.hub import client
from hf_lineage.hub.commits import DATASET, fetch_file, head, tree
from hf_lineage.hub.repo import hub_name
from hf_lineage.index import shard as shard_file
from hf_lineage.index.shard import Entry, Group, Key, Shard, ShardGoneError, key_of
from hf_lineage.signature.store import encode, load_signature
from hf_lineage.signature.values import Signature, by_path

KEYS, SIGNATURES = "keys", "signatures"  # the folders of an index
SMALL, MANY = 2**22, 1000  # bytes below which a file of keys is joined to others, when there are more than so many
LARGEST_SIGNATURE = 2**30  # bytes of a signature that is fetched


class Record(NamedTuple):
    """The data that an index keeps of one model along one path: its signature is the content of the file."""

    entry: Entry
    key: Key
    signature: bytes


@dataclass(frozen=True)
class Catalogue:
    """An index; its folder need not exist before a model is added."""

    folder: Path
    source: str = ""  # repository and commit of an index on the Hub, from where signatures are fetched; else empty
    unread: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def add(self, signature: Signature) -> list[Entry]:
        """Put a model into the index, along every path of its signature; one that is there is replaced."""
        return [self.put(record) for record in records_of(signature)]

    def put(self, record: Record) -> Entry:
        """Write what is kept of a model; the signature first, so that no key is without one however this ends."""
        file = self.folder / signature_file(record.entry)
        make_folder(file.parent)
        write_atomically(file, record.signature)
        shard_file.write(self.folder / KEYS, record.entry.identity, [record.entry], record.key[None])
        small = []
        for keys in self.files():
            with contextlib.suppress(FileNotFoundError):
                if keys.stat().st_size < SMALL:
                    small.append(keys)
        if len(small) > MANY:
            self._join(_open_shards(small))
        return record.entry

    def shards(self) -> list[Shard]:
        """Return all shards; raise SignatureError for a file that is none, and for an index of an earlier form."""
        if old := next((self.folder / KEYS).glob("*.parquet"), None):
            raise SignatureError(f"{old} is of an earlier hf-lineage; remove it and add the models of the index again")
        return list(_open_shards(self.files()))

    def entries(self) -> list[Entry]:
        """Return all models; raise as `shards` does."""
        return [entry for shard in self.shards() for entry in shard.entries()]

    def commits(self, labels: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return by model the commits at which it is in the index along all paths, given the label for each."""
        paths: dict[tuple[str, str], set[str]] = {}
        by_model: dict[str, frozenset[str]] = {}
        for entry in self.entries():
            there = entry.commit and labels.get(entry.path) == entry.recipe
            if there and (self.folder / signature_file(entry)).is_file():
                own = paths.setdefault((entry.model, entry.commit), set())
                own.add(entry.path)
                if len(own) == len(labels):
                    by_model[entry.model] = by_model.get(entry.model, frozenset()) | {entry.commit}
        return by_model

    def find_signature(self, entry: Entry) -> Signature | None:
        """Return the signature of a model; None where it cannot be had, which is noted. Raise NetworkError."""
        try:
            return self.signature(entry)
        except NetworkError:
            raise
        except LineageError as error:
            self.unread.setdefault(entry.model, str(error))
            return None

    @property
    def notes(self) -> list[str]:
        """One sentence for models whose signatures could not be read; none where all were."""
        if not self.unread:
            return []
        first = next(iter(self.unread.values()))
        return [f"{len(self.unread)} models of the index could not be read and were left out; the first: {first}"]

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
        if file.is_file() or not self.source:
            return file
        name, _, commit = self.source.partition("@")
        return fetch_file(name, commit, signature_file(entry), DATASET, LARGEST_SIGNATURE)

    def compact(self) -> None:
        """Join the shards of each group. A model that is added meanwhile is not lost: its shard is not joined."""
        self._join(self.shards())

    def files(self) -> list[Path]:
        """Return the files of keys."""
        return sorted((self.folder / KEYS).glob(f"*{shard_file.KEYS}"))

    def _join(self, shards: Iterable[Shard]) -> None:
        groups: dict[Group, list[Shard]] = {}
        for one in shards:
            groups.setdefault(one.group, []).append(one)
        for several in groups.values():
            if len(several) > 1:
                self.replace(*shard_file.join_shards(several))

    def replace(self, old: Sequence[Shard], entries: Sequence[Entry], keys: Key) -> None:
        """Write models with their keys in place of some shards: as one, or as none where there are no models."""
        name = hashlib.sha256("".join(entry.identity for entry in entries).encode()).hexdigest()[:32]
        new = shard_file.write(self.folder / KEYS, name, entries, keys) if entries else None
        for one in old:
            if one.file != new:
                one.remove()


def _open_shards(files: Iterable[Path]) -> Iterator[Shard]:
    for file in files:
        with contextlib.suppress(ShardGoneError):  # joined to others
            yield Shard.open(file)


def records_of(signature: Signature) -> list[Record]:
    """Return what an index keeps of a model along every path; SignatureError for a name that no index can hold."""
    if problem := shard_file.why_unnameable(signature.model):
        raise SignatureError(f"this model cannot be in an index: {problem}; rename it")
    return [
        Record(entry_of(signature, path), key_of(single.paths[path]), encode(single))
        for path, single in by_path(signature).items()
    ]


def signature_file(entry: Entry) -> str:
    """Return the path of a model's signature in an index; in many folders, for a folder holds some thousand well."""
    return f"{SIGNATURES}/{entry.identity[:2]}/{entry.identity}.safetensors"


def default_folder() -> Path:
    """Return the index of this user: HF_LINEAGE_INDEX, which is in no git checkout (OptionError), else in HF_HOME."""
    from huggingface_hub import constants

    return outside_checkouts(INDEX) or Path(constants.HF_HOME) / "lineage" / "index"


def entry_of(signature: Signature, path: str) -> Entry:
    """Return the entry of a model along one path of its signature."""
    commit = signature.commit or ""
    layers, label = len(signature.numbers(path)), signature.recipe.label(path)
    # A model that is at a commit has no revision in its name.
    name = signature.model.partition("@")[0] if commit else signature.model
    return Entry(name, commit, path, signature.width, layers, label)


FILE = re.compile(rf"{KEYS}/[\w.-]{{1,200}}\.(safetensors|jsonl)")
MOST_FILES, LARGEST_INDEX = 2000, 2**31  # files of shards of one index that are read, and bytes of all of them together


def open_catalogue(index: str | None) -> Catalogue:
    """Return the index that a user names: a folder, a repository of data on the Hub, or by default the user's own."""
    if index is None:
        return Catalogue(default_folder())
    if is_folder(index):
        return Catalogue(Path(index))
    name, _, revision = index.partition("@")
    if hub_name(name) != name or "/" not in name:
        raise OptionError(
            f"{printable(index, 200)} does not exist, and no index on the Hub has this name; add models to it first"
        )
    commit = revision if client.COMMIT.fullmatch(revision) else head(name, revision or "main", DATASET)
    try:
        listed = tree(name, commit, KEYS, DATASET)
    except RepositoryError:
        listed = {}
    files = [file for file in listed if FILE.fullmatch(file)]
    size = sum(listed[file].size for file in files)
    if not files:
        raise RepositoryError(f"{name} holds no index: it has no {KEYS}/*.safetensors; check its name and revision")
    if len(files) > MOST_FILES or size > LARGEST_INDEX:
        raise RepositoryError(
            f"{name} has {len(files)} files of keys of {size} bytes, and hf-lineage reads at most {MOST_FILES} of "
            f"{LARGEST_INDEX >> 30} GiB; it is not an index"
        )
    here = [fetch_file(name, commit, file, DATASET) for file in files]
    return Catalogue(here[0].parents[1], f"{name}@{commit}")
