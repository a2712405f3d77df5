"""What a run of `watch` shows, or what it would check, before it has any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ERROR, VERDICT = "ERROR", "Verdict"
"""The word for a model that could not be checked, and the column in which it stands."""


@dataclass(frozen=True)
class Page:
    """The content of a page, independent of the format."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    sentences: Sequence[str]
    document: dict[str, Any]
