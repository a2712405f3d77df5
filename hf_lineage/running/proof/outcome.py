"""Outcome: what the proof of a factorization came to; this module alone needs neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Proof:
    """What a factorization says of one class otherwise than the module computes it."""

    factorization: str
    architecture: str
    release: str
    """The version of transformers whose module was run."""
    faults: Mapping[str, Any]
    """By the name of the rule that noticed it; nothing if the factorization is proved."""

    @property
    def holds(self) -> bool:
        """Whether the factorization is proved."""
        return not self.faults
