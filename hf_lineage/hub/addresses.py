"""Addresses: what may be a name on the Hub, where a reader finds a repository there, and in a local hub.

A local hub is a folder of `org/name` folders, in which case does not count, as it does not on the Hub.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from hf_lineage.errors import RepositoryError
from hf_lineage.files import inside, is_folder, refuse_within

HUB = "https://huggingface.co"
HUB_NAME = re.compile(r"(?P<name>([A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95})(@(?P<revision>[\w./-]{1,120}))?")
"""The organisation may be missing: many cards still say `gpt2`, a name from before organisations existed."""


def hub_name(model: str) -> str | None:
    """Return `org/name` of a name that may be `org/name@revision`; None if it cannot be a name on the Hub."""
    named = HUB_NAME.fullmatch(model)
    return named and named["name"]


def files_at(name: str | None, commit: str | None) -> str | None:
    """Return the address of the files of a repository at a commit; None where it is not certain that there is one.

    Another Hub than the public one (HF_ENDPOINT) is never linked: its address may be private, and hold a password.

    >>> files_at("org/name", "0" * 40)
    'https://huggingface.co/org/name/tree/0000000000000000000000000000000000000000'
    """
    from huggingface_hub import constants

    from hf_lineage.hub import client

    public = urlsplit(constants.ENDPOINT)[:2] == urlsplit(HUB)[:2]
    plain = hub_name(name or "")
    if not (public and plain and plain == name and client.COMMIT.fullmatch(commit or "")):
        return None
    return f"{HUB}/{quote(plain)}/tree/{commit}"


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
