"""What the formats for machines share: JSON that is nothing else as well, and the time where one is needed."""

from __future__ import annotations

import datetime
import json
import os
from typing import Any

import msgspec

from hf_lineage.errors import OptionError

_MARKUP = {ord(c): f"\\u{ord(c):04x}" for c in "<>&#"}


def encode(document: Any) -> str:
    """Return plain values as indented JSON in ASCII, in which markup and what a CI runner obeys (`##[`) are escaped.

    The values stay what they are, and no page, terminal or log that shows the file finds anything to act on.
    """
    return json.dumps(document, indent=2, allow_nan=False).translate(_MARKUP) + "\n"


def indented(document: Any) -> str:
    """Return structs or plain values as indented JSON, letters as they are: names in it must be printable already."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def moment() -> datetime.datetime:
    """Return the time that a format has to state: now, or what SOURCE_DATE_EPOCH says (reproducible-builds.org)."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        return datetime.datetime.fromtimestamp(int(said), datetime.UTC) if said else datetime.datetime.now(datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise OptionError(f"SOURCE_DATE_EPOCH must be seconds since 1970, not {said}") from None
