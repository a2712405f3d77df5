"""Paths of this machine: whether one names a file or a folder, and whether a file is inside a folder after links."""

from __future__ import annotations

import os
import re
from pathlib import Path

_COMMON_BLOB = re.compile(r"[0-9a-f]{64}")
"""The name of a file in the store that all repositories of the Hub's cache have in common."""


def is_file(path: str) -> bool:
    """Return whether this text names a file; False as well for a text that cannot be a path."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for names too long or with a null


def is_folder(path: str) -> bool:
    """Return whether this text names a folder; False as well for a text that cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def inside(path: Path, folder: Path) -> Path | None:
    """Return the real path of a file or folder; None if a link leads out of `folder`, which may itself be a link.

    In the Hub's cache a snapshot consists of links to the blobs of its repository, which may be links to the blobs
    common to the whole cache. Only these links may lead out of a folder.
    """
    target, root = (Path(os.path.realpath(name)) for name in (path, folder))
    return target if target.is_relative_to(root) or _is_blob(target, root) else None


def _is_blob(target: Path, root: Path) -> bool:
    """Whether `root` is inside models--ORG--NAME/snapshots/COMMIT of a cache and `target` is a blob of that cache."""
    for snapshot in (root, *root.parents):
        repository = snapshot.parent.parent
        if snapshot.parent.name == "snapshots" and repository.name.startswith("models--"):
            store = target.parent.parent
            common = store == repository.parent / "blobs" and _COMMON_BLOB.fullmatch(target.name)
            return bool(common) or target.parent == repository / "blobs"
    return False
