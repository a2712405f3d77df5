"""Options: what a check depends on besides the models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hf_lineage.architecture.paths import PATHS
from hf_lineage.errors import OptionError
from hf_lineage.signature.recipe import RECIPES, Recipe

ACCEPTABLE = ("part", "basis")
"""Kinds of RELATED that a user may accept."""


@dataclass(frozen=True)
class Options:
    """What a check depends on besides the models; out of range raises OptionError.

    >>> Options(alpha=0.0001)
    Traceback (most recent call last):
    hf_lineage.errors.OptionError: alpha 0.0001 cannot be reached with 999 permutations over 1 path(s); ...
    """

    recipe: Recipe = RECIPES["robust"]
    paths: tuple[str, ...] = ("mlp",)
    alpha: float = 0.01
    permutations: int = 999
    """How many are drawn at first; none at or above the score gives the least p-value. `sequence` may draw more."""
    seed: int = 0
    nulls: tuple[str, ...] = ()
    """Models known to be independent of the base, or names of published nulls."""
    budget: Literal["quick", "full"] | None = None
    """`quick` stops reading layers as soon as the verdict is clear; None: `quick` unless the others need all layers."""
    min_share: float = 0.5
    """A claim is verified only if more than this share of what the model's units write is inherited."""
    accept: tuple[str, ...] = ()
    """Kinds of RELATED that are accepted though they verify no claim: part, basis."""
    order_seed: int | None = None
    """Seed of the order in which layers are read and of the units that are drawn; None: a new one for each report."""
    recompute: bool = False
    """Whether to read weights even where a signature of them is cached or published."""
    signatures: tuple[str, ...] = ()
    """Repositories on the Hub to search for signatures of bases, besides their own."""
    trust: Path | None = None
    """A trust file instead of the usual one."""
    max_memory: str | None = None
    local_hub: Path | None = None

    def __post_init__(self) -> None:
        unknown = [path for path in self.paths if path not in PATHS]
        if unknown or not self.paths or len(set(self.paths)) != len(self.paths):
            raise OptionError(
                f"paths must be one or more of {', '.join(PATHS)}, each once, not {', '.join(self.paths)}"
            )
        if self.budget == "quick" and (self.nulls or self.recipe.probes is None):
            raise OptionError("--null and --exact need all layers; leave --budget quick out")
        unaccepted = [kind for kind in self.accept if kind not in ACCEPTABLE]
        if unaccepted:
            raise OptionError(f"what can be accepted is {' or '.join(ACCEPTABLE)}, not {unaccepted[0]}")
        if not 0 < self.min_share < 1:
            raise OptionError(f"the share that must be inherited lies between 0 and 1, not at {self.min_share:g}")
        if self.order_seed is not None and not 0 <= self.order_seed < 2**64:
            raise OptionError(f"the seed of the order must lie between 0 and 2^64 - 1, not at {self.order_seed}")
        if not 1e-6 <= self.alpha < 1:
            raise OptionError(f"alpha must lie between 0.000001 and 1, not {self.alpha:g}")
        if not 1 <= self.permutations <= 1_000_000:
            raise OptionError(f"permutations must be between 1 and 1000000, not {self.permutations}")
        if len(self.paths) / (self.permutations + 1) > self.alpha:
            least = -int(-len(self.paths) // self.alpha) - 1
            raise OptionError(
                f"alpha {self.alpha:g} cannot be reached with {self.permutations} permutations over "
                f"{len(self.paths)} path(s); use at least {least}"
            )
