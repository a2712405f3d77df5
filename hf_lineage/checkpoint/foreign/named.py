"""Named: one tensor of a file with names of its own, by the name that it has on the Hub's disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Undo = Literal["rotated", "plus_one", "transposed", "by_role"]


@dataclass(frozen=True)
class Named:
    """One tensor of a file by the name that it has on the Hub's disk."""

    name: str
    stored: str
    """Its name in the file."""
    undo: Undo | None = None
    """What was done to it on the way into the file."""
