"""Nulls: each gives the scores that independent models reach, by a method of its own; the first that holds decides.

To add a null, add an entry to the table NULLS; no other module changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.pair import Pair
from hf_lineage.evidence.permutation_null import sequential_null


class Null(Protocol):
    """The distribution of the score of one path between independent models."""

    @property
    def name(self) -> str:
        """One word, for reports."""

    @property
    def p_value(self) -> float:
        """The p-value of this path, before it is corrected for several paths or interim analyses."""

    @property
    def paths_counted(self) -> bool:
        """Whether the p-value is already corrected for the number of paths that are tested."""

    @property
    def objection(self) -> str:
        """Why this null cannot decide a verdict; empty if it can."""

    @property
    def admits(self) -> bool:
        """Whether the verdict may be RELATED where another null decides."""

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""


def _permutation(pair: Pair, score: float, criteria: Criteria) -> Null | None:
    del score  # this null has a score of its own, on the test coordinates
    null = sequential_null(*pair.signatures, criteria.permutations_at_first, criteria.seed)
    return replace(null, not_exchangeable=not pair.exchangeable)


def _empirical(pair: Pair, score: float, criteria: Criteria) -> Null | None:
    null = criteria.independent.get(pair.path)
    return null and replace(null, observed=score, alpha=criteria.alpha)


Make = Callable[[Pair, float, Criteria], Null | None]
"""Makes a null from both models along a path, their score and the criteria; None where it does not apply."""

NULLS: dict[str, Make] = {"permutation": _permutation, "empirical": _empirical}


def deciding(nulls: Sequence[Null]) -> Null | None:
    """Return the null that decides the verdict, the first without an objection; None if all have one."""
    return next((null for null in nulls if not null.objection), None)
