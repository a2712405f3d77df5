"""What a record beside a model card holds of the parents of a merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

IN_SHARES = 2
"""Decimals of a share: units are drawn, and one per cent is about what the draw leaves open."""


class RecordedShare(msgspec.Struct, frozen=True):
    """What a parent gave to a merge along one path, in hundredths."""

    share: float
    low: float
    high: float
    detected: bool
    declared: float | None


class RecordedParent(msgspec.Struct, frozen=True):
    """What a parent gave to a merge, by path, or why that is not known."""

    method: str | None
    is_base: bool
    reason: str
    shares: dict[str, RecordedShare]


def recorded(parent: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured of one parent with as many digits as are recorded."""
    shares = {
        path: {key: round(value, IN_SHARES) if isinstance(value, float) else value for key, value in share.items()}
        for path, share in parent["shares"].items()
    }
    return {**parent, "shares": shares}
