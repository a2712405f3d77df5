"""Origin: the source of the numbers of a model, which the report names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """The source of the numbers of a model; for a published signature also its files and why they are trusted.

    If a base is a folder, its record names its weight files.
    """

    kind: Literal["weights", "cache", "published", "file"]
    """The weights, the cached signature of them, a signature on the Hub, or a file that the user named."""
    repository: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """File of that repository, or of the folder -> its sha256."""
    trusted: str = ""
    """Why the published signature is trusted."""

    @property
    def given(self) -> bool:
        """Whether a signature was given in place of the weights, so that all of its layers are there at no cost."""
        return self.kind in ("published", "file")


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")
