"""Addresses: what may be a name on the Hub, and where a reader finds a repository there."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

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
