"""RepoRef: `org/model`, `org/model@revision` or a folder, pinned to one folder on disk, and its small files."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.errors import RepositoryError

LARGEST_SMALL_FILE = 4 * 2**20
"""Bytes: no honest config, card or index comes near it."""

_HUB_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})(@(?P<revision>[\w./-]{1,120}))?")


@dataclass(frozen=True)
class RepoRef:
    """One model repository: the name it goes by, the folder that holds its files, the commit if there is one."""

    name: str
    folder: Path
    revision: str | None = None

    def __str__(self) -> str:
        return self.name

    def path(self, file: str) -> Path:
        """Return where a file of the repository is, or would be."""
        return self.folder / file

    def has(self, file: str) -> bool:
        """Return whether the repository has this file."""
        return self.path(file).is_file()

    def files(self) -> list[str]:
        """Return the names of the files at the root of the repository, sorted."""
        return sorted(entry.name for entry in os.scandir(self.folder) if entry.is_file())

    def read_text(self, file: str) -> str | None:
        """Return a small text file, None if there is none; raise RepositoryError if it is unreadable or too large."""
        if not self.has(file):
            return None
        try:
            with self.path(file).open("rb") as stream:
                content = stream.read(LARGEST_SMALL_FILE + 1)
            if len(content) > LARGEST_SMALL_FILE:
                raise RepositoryError(f"{self}: {file} is larger than {LARGEST_SMALL_FILE >> 20} MiB; shorten it")
            return content.decode("utf-8")
        except OSError as error:
            raise RepositoryError(f"{self}: {file} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise RepositoryError(f"{self}: {file} is not UTF-8 text ({error.reason} at byte {error.start})") from None

    def read_json(self, file: str) -> dict[str, Any] | None:
        """Return a JSON object, None if there is no such file; raise RepositoryError if it is anything else."""
        text = self.read_text(file)
        if text is None:
            return None
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RepositoryError(f"{self}: {file} is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise RepositoryError(f"{self}: {file} holds a {type(content).__name__}, not an object")
        return content

    def config(self) -> dict[str, Any]:
        """Return `config.json`; raise RepositoryError if there is none."""
        config = self.read_json("config.json")
        if config is None:
            raise RepositoryError(f"{self} has no config.json, so it is no transformers model; check the path")
        return config


def resolve(model: str, local_hub: Path | None = None) -> RepoRef:
    """Return the repository that `org/name`, `org/name@revision` or a folder means.

    `local_hub` is a folder of `org/name` folders that is looked into before anything else.
    Raise RepositoryError if there is no such repository.
    """
    if local_hub is not None and not local_hub.is_dir():
        raise RepositoryError(f"{local_hub} is no folder, so it is no local hub")
    named = _HUB_NAME.fullmatch(model)
    if named and local_hub is not None and (local_hub / named["name"]).is_dir():
        return RepoRef(model, local_hub / named["name"], named["revision"])
    folder = Path(model).expanduser()
    if folder.is_dir():
        return RepoRef(model, folder)
    if folder.exists():
        raise RepositoryError(f"{model} is a file; give the folder that holds config.json and the weights")
    if named is None:
        raise RepositoryError(f"{model} is neither a folder nor a Hub name such as org/model or org/model@revision")
    raise RepositoryError(f"{model} was not found")
