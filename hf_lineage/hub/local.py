"""A local hub: a folder of `org/name` folders, in which case does not count, as it does not on the Hub."""

from __future__ import annotations

import os
from pathlib import Path

from hf_lineage.files.folders import is_folder


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
