"""Addresses: where a reader finds a repository on the Hub, to be linked and never to be loaded."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from hf_lineage.hub import client
from hf_lineage.hub.reference import hub_name

HUB = "https://huggingface.co"


def files_at(name: str | None, commit: str | None) -> str | None:
    """Return the address of the files of a repository at a commit; None where it is not certain that there is one.

    Another Hub than the public one (HF_ENDPOINT) is never linked: its address may be private, and hold a password.

    >>> files_at("org/name", "0" * 40)
    'https://huggingface.co/org/name/tree/0000000000000000000000000000000000000000'
    """
    from huggingface_hub import constants

    public = urlsplit(constants.ENDPOINT)[:2] == urlsplit(HUB)[:2]
    plain = hub_name(name or "")
    if not (public and plain and plain == name and client.COMMIT.fullmatch(commit or "")):
        return None
    return f"{HUB}/{quote(plain)}/tree/{commit}"
