"""Procedure: how two models are tested, as far as the user decides it; without NumPy, for the command line names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from hf_lineage.errors import OptionError
from hf_lineage.signature import Names

Budget = Literal["quick", "full"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
Admitted = Literal["any", "exact"]
ADMITTED: tuple[Admitted, ...] = get_args(Admitted)
ACCEPTABLE = ("part", "basis", "weak")
"""Kinds of RELATED that a user may accept."""
FAIL_ON: tuple[str, ...] = ("unrelated", "undecided", "never")
"""What makes a check fail: UNRELATED or a damaged base; also what is not verified or accepted; or nothing."""


@dataclass(frozen=True)
class Procedure:
    """How two models are tested; OptionError for a number out of range."""

    alpha: float = 0.01
    permutations: int = 999
    """How many are drawn at first; none at or above the score gives the least p-value. `sequence` may draw more."""
    seed: int = 0
    nulls: Names = Names()
    """Models known to be independent of the base, or names of published nulls."""
    budget: Budget | None = None
    """`quick` stops reading layers as soon as the verdict is clear; None: `quick` unless the others need all layers."""
    min_share: float = 0.5
    """A claim is verified only if more than this share of what the model's units write is inherited."""
    accept: Names = Names()
    """Kinds of RELATED that are accepted though they verify no claim: part, basis, weak."""
    evidence: Admitted = field(default="any", kw_only=True)
    """`exact`: what rests on a threshold from independent models alone, RELATED calibrated, is not accepted."""
    order_seed: int | None = None
    """Seed of the order in which layers are read and of the units that are drawn; None: a new one for each report."""

    def __post_init__(self) -> None:
        unaccepted = [kind for kind in self.accept if kind not in ACCEPTABLE]
        if unaccepted:
            raise OptionError(f"accept must be one of {', '.join(ACCEPTABLE)}, not {unaccepted[0]}")
        if self.evidence not in ADMITTED:
            raise OptionError(f"evidence must be {' or '.join(ADMITTED)}, not {self.evidence}")
        if not 0 < self.min_share < 1:
            raise OptionError(f"min_share must lie between 0 and 1, not at {self.min_share:g}")
        for name, seed in (("seed", self.seed), ("order_seed", self.order_seed)):
            if seed is not None and not 0 <= seed < 2**64:
                raise OptionError(f"{name} must lie between 0 and 2^64 - 1, not at {seed}")
        if not 1e-6 <= self.alpha < 1:
            raise OptionError(f"alpha must lie between 0.000001 and 1, not {self.alpha:g}")
        if not 1 <= self.permutations <= 1_000_000:
            raise OptionError(f"permutations must be between 1 and 1000000, not {self.permutations}")
