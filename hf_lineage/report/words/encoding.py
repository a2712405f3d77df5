"""Shared by the machine-readable formats: JSON that means nothing to HTML or a CI runner."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_MARKUP = {ord(c): f"\\u{ord(c):04x}" for c in "<>&#"}


def encode(document: Any) -> str:
    """Return plain values as indented JSON in ASCII, in which markup and what a CI runner obeys (`##[`) are escaped.

    The values stay what they are, and no page, terminal or log that shows the file finds anything to act on.
    """
    return json.dumps(document, indent=2, allow_nan=False).translate(_MARKUP) + "\n"


def indented(document: Any) -> str:
    """Return structs or plain values as indented JSON, letters as they are: names in it must be printable already."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
