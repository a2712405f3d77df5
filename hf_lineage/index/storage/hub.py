"""Hub: an index that lies in a repository of data, as `hf upload --repo-type=dataset` puts it there."""

from __future__ import annotations

import re
from pathlib import Path

from hf_lineage.errors import OptionError, RepositoryError, printable
from hf_lineage.files import is_folder
from hf_lineage.hub import client, hub_name, listing
from hf_lineage.index.storage.catalogue import KEYS, Catalogue, default_folder

FILE = re.compile(rf"{KEYS}/[\w.-]{{1,200}}\.(safetensors|jsonl)")
MOST_FILES = 2000
"""Files of shards of one index that are read."""
LARGEST_INDEX = 2**31
"""Bytes of all of them together."""


def opened(index: str | None) -> Catalogue:
    """Return the index that a user names: a folder, or a repository of data on the Hub; by default the user's own.

    Raise OptionError for a folder that is not there, RepositoryError for a repository without an index.
    """
    if index is None:
        return Catalogue(default_folder())
    if is_folder(index):
        return Catalogue(Path(index))
    name, _, revision = index.partition("@")
    if hub_name(name) != name or "/" not in name:
        raise OptionError(
            f"{printable(index, 200)} does not exist, and no index on the Hub has this name; add models to it first"
        )
    commit = revision if client.COMMIT.fullmatch(revision) else listing.head(name, revision or "main", listing.DATASET)
    return fetched(name, commit)


def fetched(name: str, commit: str) -> Catalogue:
    """Return an index on the Hub at a commit, its shards in the Hub's cache; raise as `opened` does."""
    try:
        listed = listing.tree(name, commit, KEYS, listing.DATASET)
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
    here = [listing.fetched(name, commit, file, listing.DATASET) for file in files]
    return Catalogue(here[0].parents[1], f"{name}@{commit}")
