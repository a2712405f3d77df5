"""Lines of a ledger that an earlier version wrote, under the keys of today."""

from __future__ import annotations

from typing import Any

import msgspec

RENAMED = {"p_value": "p_value_adjusted"}


class _First(msgspec.Struct, frozen=True):
    """What the first schema says under other keys."""

    version: str
    claims: tuple[dict[str, Any], ...] = ()


def raised(line: bytes) -> dict[str, Any]:
    """Return a line of the first schema under the keys of the second; raise as msgspec does for what is none."""
    values, first = msgspec.json.decode(line, type=dict[str, Any]), msgspec.json.decode(line, type=_First)
    del values["version"]
    tool = {"name": "hf-lineage", "version": first.version}
    return values | {"schema_version": 2, "tool": tool, "claims": [_claim(claim) for claim in first.claims]}


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    values = {RENAMED.get(key, key): value for key, value in claim.items()}
    share = values.get("inherited")
    return values | {"inherited": None if share is None else {"share": share}}
