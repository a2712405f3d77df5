"""Criteria: what a verdict depends on besides two signatures; without NumPy, for the command line names the choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from hf_lineage.evidence.p_values import EmpiricalNull


Budget = Literal["quick", "full"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
ACCEPTABLE = ("part", "embedding", "calibrated", "weak", "listed")  # codes of RELATED that a user may accept
# What makes a check fail: UNRELATED or a damaged base; also a parent that is not named; also undecided claims; nothing.
FAIL_ON: tuple[str, ...] = ("unrelated", "undeclared-parent", "undecided", "never")
MINIMUM_EFFECT = 0.02  # with a smaller score, or effect on the test coordinates, a pair is not RELATED


@dataclass(frozen=True)
class Criteria:
    """Everything that a verdict depends on besides the two signatures."""

    alpha: float = 0.01
    min_share: float = 0.5  # a claim is verified only if more than this share of what the units write is inherited
    accept: tuple[str, ...] = ()  # codes that the user accepts although they do not verify a claim
    minimum_effect: float = MINIMUM_EFFECT
    paths: tuple[str, ...] = ("mlp",)
    permutations: int = 999  # permutations that a test draws at first, if they can reach alpha; see `p_values`
    at_most: int | None = None  # permutations after which a test along the paths ends in any case
    seed: int = 0  # seed of the permutations, and of the sample of units by which the inherited share is estimated
    analyses: int = 1  # the number of interim analyses; the last one, of all layers, counts as one
    further: int = 0  # tests of the same claim that may follow; together they have alpha at most
    independent: Mapping[str, EmpiricalNull] = field(default_factory=dict)  # by path, of models independent of the base

    def permutations_at_first(self, part: float = 1.0) -> int:
        """Return how many each test draws at first: enough to reach this part of alpha after the correction."""
        return max(self.permutations, int(self.tests / (part * self.alpha)))

    @property
    def tests(self) -> int:
        """The largest number of tests of one claim, for which p is corrected (Bonferroni)."""
        return self.analyses + self.further
