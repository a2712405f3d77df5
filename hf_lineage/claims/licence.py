"""Licence: what a model card says a model is licensed under. It is the author's word, and nothing here judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import yaml

from hf_lineage.claims.card import front_matter, parted
from hf_lineage.claims.names import NO_VALUE
from hf_lineage.errors import LineageError, printable
from hf_lineage.files import plain_yaml
from hf_lineage.hub import RepoRef

CARD = "README.md"
LARGEST = plain_yaml.SHORT
"""Bytes at the beginning of a card in which its metadata have to end; those of any card on the Hub do."""
KEYS = ("license", "license_name", "license_link")
LONGEST, MOST = 200, 10
"""Characters of one value, and licences of one card, that are shown."""


def stated(source: object) -> str:
    """Return the licence that the card of a repository states, on one printable line; empty where it states none.

    Only the file that is here already is read: nothing is fetched for it.
    """
    if not isinstance(source, RepoRef):
        return ""
    try:
        text = replace(source, subfolder="").read_head(CARD, LARGEST) or ""
        _, lines = parted(text)
        start, stop = front_matter(lines) or (0, 0)
        metadata = plain_yaml.load("\n".join(line.rstrip() for line in lines[start:stop]))
    except (LineageError, OSError, yaml.YAMLError):
        return ""
    licence, *more = (_text(metadata.get(key)) for key in KEYS) if isinstance(metadata, Mapping) else ("",)
    named = ", ".join(filter(None, more))
    return " ".join(filter(None, (licence, f"({named})" if named else "")))


def _text(value: object) -> str:
    """Return a value as it is shown: a text, or the texts of a list."""
    values = value[:MOST] if isinstance(value, list) else [value]
    texts = (text.strip() for text in values if isinstance(text, str))
    return printable(", ".join(text for text in texts if text not in NO_VALUE), LONGEST)
