"""Paths of this machine: what one names, whether it is inside a folder after links, and where configuration is."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_COMMON_BLOB = re.compile(r"[0-9a-f]{64}")
"""The name of a file in the store that all repositories of the Hub's cache have in common."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_file(path: str) -> bool:
    """Return whether this text names a file; False as well for a text that cannot be a path."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for names too long or with a null


def is_folder(path: str) -> bool:
    """Return whether this text names a folder; False as well for a text that cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def configuration() -> Path:
    """Return the folder of this user's configuration of the tool: in XDG_CONFIG_HOME, by default ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "hf-lineage"


def of_this_user_alone(file: Path) -> bool:
    """Return whether a plain file belongs to this user and nobody else can write to it; False if there is none."""
    try:
        status = file.lstat()
    except OSError:
        return False
    private = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE)
    return private and stat.S_ISREG(status.st_mode)


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
