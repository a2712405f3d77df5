"""A local hub: a folder of `org/name` folders, in which case does not count, as it does not on the Hub."""

from __future__ import annotations

import os
from pathlib import Path

from hf_lineage.errors import RepositoryError
from hf_lineage.files import inside, is_folder, refuse_within


def held(local_hub: Path, name: str | None, revision: str | None) -> Path | None:
    """Return the folder in a local hub that the name of a model means; None if there is none.

    Raise RepositoryError for what is no local hub, for a revision, which it does not have, and for a link out of it.
    """
    if not is_folder(str(local_hub)):
        raise RepositoryError(f"{local_hub} is not a folder, so it cannot be a local hub; check --local-hub")
    refuse_within(local_hub)
    here = name and spelled(local_hub, name)
    if not here:
        return None
    if revision:
        raise RepositoryError(f"{name}@{revision}: a local hub has no revisions; leave @{revision} out")
    if inside(local_hub / here, local_hub) is None:
        raise RepositoryError(f"{name} is a link out of the local hub and is not followed; give the folder itself")
    return local_hub / here


def spelled(local_hub: Path, name: str) -> str | None:
    """Return a name as the local hub spells it; None if there is no such folder, or more than one.

    >>> spelled(Path("examples/hub"), "ACME/llama-Base")
    'acme/llama-base'
    """
    if is_folder(str(local_hub / name)):
        return name
    candidates = [""]
    for part in name.split("/"):
        candidates = [
            f"{outer}/{entry}".lstrip("/")
            for outer in candidates
            for entry in _entries(str(local_hub / outer))
            if entry.casefold() == part.casefold() and is_folder(str(local_hub / outer / entry))
        ]
    return candidates[0] if len(candidates) == 1 else None


def _entries(folder: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return []
