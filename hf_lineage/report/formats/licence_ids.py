"""Identifiers of licences: what the Hub calls a licence of the SPDX License List, as that list spells it.

The Hub writes them in lower case. What it knows besides (openrail, gemma, llama3, other) is on no list.
"""

from __future__ import annotations

import re
from pathlib import Path

from hf_lineage.claims import Licence

LISTED = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split())
"""The names that the Hub knows and the list has."""
SPELLED = {name.lower(): name for name in LISTED} | {"c-uda": "C-UDA-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0"}
"""By the Hub's identifier. GNU's without `only` or `or later` leave open which is meant, so they are on no list."""


def expression(licence: Licence) -> str:
    """Return the SPDX expression of a licence: its identifier, or a reference of our own to what is on no list."""
    if listed := SPELLED.get(licence.identifier.lower()):
        return listed
    named = licence.name if licence.identifier.lower() in ("", "other") else licence.identifier
    return "LicenseRef-" + (re.sub(r"[^A-Za-z0-9.]+", "-", named or licence.identifier).strip("-.") or "other")
