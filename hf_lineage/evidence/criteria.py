"""Criteria: what a verdict depends on besides the two signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hf_lineage.evidence.nulls import EmpiricalNull

MINIMUM_EFFECT = 0.02
"""With a smaller score, or a smaller effect on the test coordinates, a pair is not RELATED, however significant."""


class Procedure(Protocol):
    """What a user may choose about the test of two models; the options of a check hold it."""

    @property
    def alpha(self) -> float:
        """The error rate of all tests of one claim together."""

    @property
    def min_share(self) -> float:
        """The share of the units' output above which a claim is verified."""

    @property
    def accept(self) -> tuple[str, ...]:
        """Identifiers of further kinds of RELATED that are accepted."""

    @property
    def permutations(self) -> int:
        """How many are drawn at first for each interim analysis."""

    @property
    def seed(self) -> int:
        """Seed of the permutations."""

    @property
    def order_seed(self) -> int | None:
        """The seed of the order of the layers; None where none is drawn."""


@dataclass(frozen=True)
class Criteria:
    """What a verdict depends on besides the two signatures."""

    alpha: float = 0.01
    min_share: float = 0.5
    """A claim is verified only if more than this share of what the candidate's units write is inherited."""
    accept: tuple[str, ...] = ()
    """Identifiers of kinds of RELATED that the user accepts although they do not verify a claim."""
    minimum_effect: float = MINIMUM_EFFECT
    paths: tuple[str, ...] = ("mlp",)
    permutations: int = 999
    """How many are drawn at first for each interim analysis; the rule in `permutations` says when more are drawn."""
    seed: int = 0
    """Seed of the permutations."""
    unit_seed: int = 0
    """Seed of the sample of hidden units by which the inherited share is estimated."""
    analyses: int = 1
    """The number of interim analyses; the last one, of all layers, counts as one."""
    further: int = 0
    """How many tests of the same claim may follow; together they call independent models RELATED with alpha at most."""
    independent: Mapping[str, EmpiricalNull] = field(default_factory=dict)
    """By path, the scores of models that are known to be independent of the base."""

    @classmethod
    def under(
        cls,
        procedure: Procedure,
        *,
        analyses: int,
        further: int = 0,
        paths: tuple[str, ...] = ("mlp",),
        independent: Mapping[str, EmpiricalNull] | None = None,
    ) -> Criteria:
        """Return the criteria of a procedure, for so many tests of one claim."""
        return cls(
            procedure.alpha,
            procedure.min_share,
            procedure.accept,
            paths=paths,
            permutations=procedure.permutations,
            seed=procedure.seed,
            unit_seed=procedure.order_seed or 0,
            analyses=analyses,
            further=further,
            independent=independent or {},
        )

    @property
    def permutations_at_first(self) -> int:
        """The number for each test, raised so that the correction for several tests costs no resolution."""
        return self.tests * (self.permutations + 1) - 1

    @property
    def tests(self) -> int:
        """How many tests of one claim there may be, for which p is corrected (Bonferroni)."""
        return self.analyses + self.further
