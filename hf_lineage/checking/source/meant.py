"""Meant folders: a folder of this machine that a declared path, or its last part, may mean.

A sentence names it, but it is never read, because the author of the model chose the name. A model on the Hub never gets
a sentence about a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from hf_lineage.claims import Claim, Claims
from hf_lineage.files import is_file, is_folder, typed
from hf_lineage.hub import RepoRef, hub_name


def with_folders(claims: Claims, source: RepoRef) -> Claims:
    """Return the claims of a repository, each with the folder here that may be meant; those of one on the Hub as is."""
    if source.remote is not None:
        return claims
    return replace(claims, claims=tuple(_with_folder(claim, source.folder) for claim in claims.claims))


def _with_folder(claim: Claim, model: Path) -> Claim:
    held = (place for place in _places(claim.base, model) if is_folder(str(place)) and is_file(f"{place}/config.json"))
    folder = next((place for place in held if not place.samefile(model)), None)
    return claim if folder is None else replace(claim, folder=typed(os.path.relpath(folder)))


def _places(base: str, model: Path) -> Iterator[Path]:
    """Where a base may lie: in the working directory, or beside the model if the name has no organisation."""
    path = PurePath(base)
    if not path.is_absolute() and ".." not in path.parts:
        yield Path(base)
    last = re.split(r"[/\\]", base.rstrip("/\\"))[-1]
    if last not in ("", ".", "..") and (last == base or hub_name(base) is None):
        yield Path(os.path.realpath(model)).parent / last
