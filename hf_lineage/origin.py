"""Origin: where the numbers of a model came from, for the report to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a model came from; of a published signature also which files, and why they are believed."""

    kind: Literal["weights", "cache", "published", "file"]
    """Its weights, our own cache of what they gave, a signature on the Hub, or one that the user named."""
    repository: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """By file of that repository its sha256."""
    trusted: str = ""
    """Why the published signature is believed."""

    @property
    def given(self) -> bool:
        """Whether somebody gave a signature in place of the weights: all of its layers are there at no cost."""
        return self.kind in ("published", "file")


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")
