"""Repositories: `org/model`, `org/model@revision` or a folder, pinned to one folder on disk; and names on the Hub."""

import contextlib
import functools
import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from hf_lineage.errors import CheckpointError, NoModelError, RepositoryError, printable
from hf_lineage.files.paths import inside, is_file, is_folder, open_regular, refuse_within, sha256, spell_path

HUB = "https://huggingface.co"
HUB_NAME = re.compile(r"(?P<name>([A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95})(@(?P<revision>[\w./-]{1,120}))?")
"""The organisation may be missing: many cards still say `gpt2`, a name from before organisations existed."""
LARGEST_SMALL_FILE, LARGEST_CONFIG = 64 * 2**20, 2**24  # bytes: an index of 100,000 tensors takes ten million
ADAPTER_CONFIG, EVERY = "adapter_config.json", "*.gguf"
MERGES = ("mergekit_config.yml", "mergekit_moe_config.yml")
SMALL_FILES = ("config.json", "README.md", ADAPTER_CONFIG, *MERGES, "model.safetensors.index.json")  # fetched first


def hub_name(model: str) -> str | None:
    """Return `org/name` of a name that may be `org/name@revision`; None if it cannot be a name on the Hub."""
    match = HUB_NAME.fullmatch(model)
    return match and match["name"]


def files_at(name: str | None, commit: str | None) -> str | None:
    """Return the address of the files of a repository at a commit; None where it is not certain that there is one."""
    from huggingface_hub import constants

    # The address of another Hub (HF_ENDPOINT) may be private, and hold a password.
    public = urlsplit(constants.ENDPOINT)[:2] == urlsplit(HUB)[:2]
    plain = hub_name(name or "")
    if not (public and plain and plain == name and re.fullmatch(r"[0-9a-f]{40}", commit or "")):
        return None
    return f"{HUB}/{quote(plain)}/tree/{commit}"


def spell_name(local_hub: Path, name: str) -> str | None:
    """Return a name as the local hub spells it; None if there is no such folder, or more than one."""
    if is_folder(str(local_hub / name)):
        return name
    candidates = [""]
    for part in name.split("/"):
        outside, candidates = candidates, []
        for outer in outside:
            with contextlib.suppress(OSError):
                same = (path for path in (local_hub / outer).iterdir() if path.name.casefold() == part.casefold())
                candidates += [f"{outer}/{path.name}".lstrip("/") for path in same if is_folder(str(path))]
    return candidates[0] if len(candidates) == 1 else None


@dataclass(eq=False)
class FolderCache:
    """Listings of folders and contents of small files, by path, for one check: a file may change before the next."""

    entries: dict[Path, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)  # files and folders
    heads: dict[Path, tuple[int, bytes]] = field(default_factory=dict)  # path -> bytes asked for, and those there were
    objects: dict[Path, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # path -> its size, its object


@dataclass(frozen=True)
class RepoRef:
    """One model repository: the name it goes by, the folder that holds its files, the commit if there is one."""

    name: str
    folder: Path
    commit: str | None = None
    remote: str | None = None  # the Hub name whose snapshot `folder` is; None for a folder of the user's own
    new_name: str | None = None  # its current name on the Hub, where that is another one
    subfolder: str = ""  # the folder of the repository that is meant; empty for the repository itself
    file: str | None = None  # the GGUF file that the user names, EVERY for all, or one of these where `each` is true
    each: bool = False
    part: str = ""  # the part of the model that is meant, such as its vision; empty for the model itself
    allow_pickle: bool = False  # whether the user allows that the tensors of a pickle are read
    cache: FolderCache = field(default_factory=FolderCache, compare=False, repr=False)  # `replace` hands it on

    def __str__(self) -> str:
        return self.name

    @property
    def identity(self) -> tuple[str, ...]:
        """A key that all names of one model share: its folder or, on the Hub, its current name and its commit."""
        place = (self.new_name or self.remote, self.commit or "") if self.remote else (str(self.folder.resolve()),)
        return *place, *filter(None, (self.subfolder, self.file, self.part))

    @property
    def typed_name(self) -> str:
        """The words that name it in a shell command: its name, with the local hub that has it, or its folder."""
        if self.remote is not None:
            return shlex.quote(self.name)
        place = self.folder / self.subfolder / self.part
        if str(place).casefold().endswith(f"{os.sep}{self.name}".casefold()):
            return shlex.join([self.name, "--local-hub", str(place.parents[self.name.count("/")])])
        return shlex.quote(spell_path(place))

    def within(self, file: str) -> str:
        """Return the name of a file as seen from the repository itself, of which this may be a folder."""
        return f"{self.subfolder}/{file}" if self.subfolder else file

    def path(self, file: str) -> Path:
        """Return the path that a file of the repository has, or would have."""
        return self.folder / self.within(file)

    def locate(self, file: str) -> Path:
        """Return the real path of a file; CheckpointError if a link leads out of a folder of the user's own."""
        path = self.path(file)  # links of a snapshot are followed anywhere: the client of the Hub made them
        target = Path(os.path.realpath(path)) if self.remote is not None else inside(path, self.folder)
        if target is None:
            raise CheckpointError(f"{self}: {file} is a link out of the model's folder, not followed; put a file there")
        return target

    def has(self, file: str) -> bool:
        """Return whether the repository has this file; raise CheckpointError for a link that leaves the folder."""
        path = str(self.path(file))
        if os.path.lexists(path) and not is_file(path):  # opening a pipe or a device could wait for ever
            what = "not a readable file but a folder, a pipe or a broken link"
            raise CheckpointError(f"{self}: {file} is {what}; put a file there")
        return is_file(path) and self.locate(file) is not None

    @functools.cached_property
    def published_files(self) -> frozenset[str]:
        """The names of the files on the Hub; none of a folder, or offline."""
        if self.remote is not None:
            from hf_lineage.hub.client import listing

            with contextlib.suppress(RepositoryError):
                return frozenset(listing(self.remote, self.commit))
        return frozenset()

    @functools.cached_property
    def heads(self) -> dict[str, Any]:
        """The headers of its GGUF files that were read, by the name of the file."""
        return {}

    @functools.cached_property
    def _digests(self) -> dict[str, str]:
        from hf_lineage.hub.client import digests

        return {} if self.remote is None else digests(self.remote, self.commit, self.subfolder)

    def files(self) -> list[str]:
        """Return the names of the files of the repository, or of the folder of it that is meant, sorted."""
        before = self.within("")
        published = (name.removeprefix(before) for name in self.published_files if name.startswith(before))
        return sorted(self._list(self.folder / self.subfolder)[0] | {name for name in published if "/" not in name})

    def folders(self) -> list[str]:
        """Return the names of the folders at the root of the repository, sorted."""
        published = {name.partition("/")[0] for name in self.published_files if "/" in name}
        return sorted(self._list(self.folder)[1] | published)

    def _list(self, folder: Path) -> tuple[frozenset[str], frozenset[str]]:
        if folder not in self.cache.entries:
            paths = list(folder.iterdir()) if is_folder(str(folder)) else []
            files = frozenset(path.name for path in paths if is_file(str(path)))
            self.cache.entries[folder] = files, frozenset(path.name for path in paths if is_folder(str(path)))
        return self.cache.entries[folder]

    def offers(self, file: str) -> bool:
        """Return whether the repository has this file, here or on the Hub."""
        return self.has(file) or self.within(file) in self.published_files

    def has_cached(self, content: str) -> bool:
        """Return whether the cache holds a complete file with this content, under this commit or another one."""
        return self.remote is not None and is_file(str(self.folder.parents[1] / "blobs" / content))

    def fetch(self, *files: str) -> None:
        """Download those of these files that the Hub has and the cache lacks; raise as `client.ask` does."""
        if self.remote is not None:
            from hf_lineage.hub.client import snapshot

            # The small files are asked for as well, because the client warns if a request matches no file.
            snapshot(self.remote, self.commit, (*SMALL_FILES, *map(self.within, files)))
            self.cache.entries.clear()

    def sha256(self, file: str) -> str:
        """Return the SHA-256 of a file in hexadecimal: what the Hub lists, else that of the bytes here."""
        if not self.has(file) and self.within(file) in self._digests:
            return self._digests[self.within(file)]
        self.fetch(file)
        with self._open(file) as stream:
            return sha256(stream)

    def read_text(self, file: str, largest: int = LARGEST_SMALL_FILE) -> str | None:
        """Return a small text file, None if there is none; raise CheckpointError if it is unreadable or too large."""
        content = self.read_bytes(file, largest)
        try:
            return None if content is None else content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            where = f"{error.reason} at byte {error.start}"
            raise CheckpointError(f"{self}: {file} is not UTF-8 text ({where}); save it as UTF-8") from None

    def read_bytes(self, file: str, largest: int = LARGEST_SMALL_FILE) -> bytes | None:
        """Return a small file as it is, None if there is none; raise CheckpointError if unreadable or too large."""
        content = self._read(file, largest + 1)
        if content is not None and len(content) > largest:
            raise CheckpointError(f"{self}: {file} is larger than {largest >> 20} MiB; shorten it")
        return content

    def read_head(self, file: str, size: int) -> str | None:
        """Return the first `size` bytes of a text file whatever its length, None if there is no such file."""
        path = self.path(file)
        known_size, known = self.cache.heads.get(path, (-1, b""))
        content: bytes | None = known[:size]
        if known_size < size and len(known) >= known_size:
            content = self._read(file, size)
            if content is not None and len(content) <= LARGEST_CONFIG:
                self.cache.heads[path] = size, content
        return None if content is None else content.decode("utf-8-sig", errors="replace")

    def _read(self, file: str, size: int) -> bytes | None:
        if not self.has(file):
            return None
        with self._open(file) as stream:
            # Reading allocates the size that is asked for, even if the file is shorter.
            return stream.read(min(size, os.fstat(stream.fileno()).st_size + 1))

    @contextlib.contextmanager
    def _open(self, file: str) -> Iterator[BufferedReader]:
        try:
            with open_regular(self.path(file)) as stream:
                # The link may have changed in the meantime, so the opened file itself is compared.
                if not os.path.samestat(os.fstat(stream.fileno()), self.locate(file).stat()):
                    raise CheckpointError(f"{self}: {file} changed while it was opened; run again")
                yield stream
        except OSError as error:
            why = error.strerror or error
            raise CheckpointError(f"{self}: {file} cannot be read: {why}; check its permissions") from None

    def read_json(self, file: str, largest: int = LARGEST_SMALL_FILE) -> dict[str, Any] | None:
        """Return a JSON object, None if there is no such file; raise CheckpointError if it is anything else."""
        size, content = self.cache.objects.get(self.path(file), (largest + 1, {}))
        if size <= largest:
            return dict(content)
        if (text := self.read_text(file, largest)) is None:
            return None
        try:
            content = json.loads(text)
            why = "" if isinstance(content, dict) else f"holds a {type(content).__name__}, not an object"
        except (RecursionError, ValueError) as error:
            why = f"is not JSON: {error}" if isinstance(error, ValueError) else "is nested too deeply"
        if why:
            raise CheckpointError(f"{self}: {file} {why}; have it saved again")
        if len(text) <= LARGEST_CONFIG:
            self.cache.objects[self.path(file)] = len(text.encode()), content
        return dict(content)

    def config(self) -> dict[str, Any]:
        """Return `config.json`; raise RepositoryError if there is none."""
        if (config := self.read_json("config.json", LARGEST_CONFIG)) is None:
            raise NoModelError(f"{self} has no config.json, so it is not a transformers model; check the path")
        return config


def resolve(model: str, local_hub: Path | None = None, folders: bool = True) -> RepoRef:
    """Return the repository that `org/name`, `org/name@revision` or a folder means.

    `local_hub` is a folder of `org/name` folders that is searched first; without `folders` no other folder is
    accepted, as for every name that the user did not type. Raise RepositoryError if there is no such repository.
    """
    name, revision = named.group("name", "revision") if (named := HUB_NAME.fullmatch(model)) else (None, None)
    if local_hub is not None:
        if not is_folder(str(local_hub)):
            raise RepositoryError(f"{local_hub} is not a folder, so it cannot be a local hub; check --local-hub")
        refuse_within(local_hub)
        here = name and spell_name(local_hub, name)
        if here and revision:
            raise RepositoryError(f"{name}@{revision}: a local hub has no revisions; leave @{revision} out")
        if here and inside(local_hub / here, local_hub) is None:
            raise RepositoryError(f"{name} is a link out of the local hub and is not followed; give the folder itself")
        if here:
            return RepoRef(model, local_hub / here)
    if folders and is_folder(model):
        refuse_within(Path(model))
        return RepoRef(model, Path(model))
    if folders and is_file(model):
        raise RepositoryError(f"{model} is a file; give the folder that holds config.json and the weights")
    if name is None:
        why = "is neither a folder nor a Hub name" if folders else "is not a Hub name"
        instead = "" if folders else "; only --base may name a folder"
        raise RepositoryError(f"{printable(model, 200)} {why} such as org/model or org/model@revision{instead}")
    from hf_lineage.hub import client

    downloaded, commit = client.snapshot(name, revision, SMALL_FILES)
    return RepoRef(model, downloaded, commit, remote=name, new_name=client.find_new_name(name, commit))
