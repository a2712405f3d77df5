"""Origin: the source of the numbers of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """The source of the numbers of a model; if a base is a folder, its record names its weight files."""

    kind: Literal["weights", "cache", "file"]
    """The weights, their cached signature, or a signature file that the user named."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File of the folder -> its sha256."""


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")
