"""Files: what a path of this machine names, and what of a folder is really inside it, wherever its links lead."""

from __future__ import annotations

import os
import re
from pathlib import Path

_SHARED = re.compile(r"[0-9a-f]{64}")
"""What a file is called in the store that all repositories of the Hub's cache share."""


def is_file(path: str) -> bool:
    """Return whether this names a file; False as well for what cannot be a path at all."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for names too long or with a null


def is_folder(path: str) -> bool:
    """Return whether this names a folder; False as well for what cannot be a path at all."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def inside(path: Path, folder: Path) -> Path | None:
    """Return where a file or folder really is, None if a link leads out of `folder`, which may itself be one.

    In the Hub's cache a snapshot is all links: to the blobs of its repository, which may be links into those of the
    whole cache. These alone may be followed out of a folder.
    """
    place, home = (Path(os.path.realpath(each)) for each in (path, folder))
    return place if place.is_relative_to(home) or _is_blob(place, home) else None


def _is_blob(place: Path, home: Path) -> bool:
    """Whether `home` is in models--ORG--NAME/snapshots/COMMIT of a cache and `place` is where that cache has files."""
    for snapshot in (home, *home.parents):
        repository = snapshot.parent.parent
        if snapshot.parent.name == "snapshots" and repository.name.startswith("models--"):
            store = place.parent.parent
            shared = store == repository.parent / "blobs" and _SHARED.fullmatch(place.name)
            return bool(shared) or place.parent == repository / "blobs"
    return False
