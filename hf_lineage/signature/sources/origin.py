"""Origin: where the numbers of a model come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """The source of the numbers of a model; if a base is a folder, its record names its weight files."""

    kind: Literal["weights", "cache", "file"]
    """The weights, the cached signature of them, or a signature file that the user named."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File of the folder -> its sha256."""


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")
