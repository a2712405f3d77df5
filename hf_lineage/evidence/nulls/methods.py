"""Nulls: each gives the scores that independent models reach, by a method of its own; the first that holds decides.

To add a null, add an entry to the table NULLS; no other module changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.nulls.permutation import sequential_nulls
from hf_lineage.evidence.paths import Pair


class Null(Protocol):
    """The distribution of the score of one path between independent models."""

    @property
    def name(self) -> str:
        """One word, for reports."""

    @property
    def p_value(self) -> float:
        """The p-value of this path, before it is corrected for interim analyses."""

    @property
    def p_over_paths(self) -> float:
        """The p-value corrected for several paths, and not for interim analyses."""

    @property
    def correction(self) -> str:
        """By what it is corrected for several paths."""

    @property
    def objection(self) -> str:
        """Why this null cannot decide a verdict; empty if it can."""

    @property
    def admits(self) -> bool:
        """Whether the verdict may be RELATED where another null decides."""

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""


def _permutation(pairs: Sequence[Pair], scores: Mapping[str, float], criteria: Criteria) -> Mapping[str, Null]:
    """One null for all paths with as many test coordinates, which the same permutations serve.

    Paths with unlike numbers of them, as stacks of unlike widths may have, are corrected for by Bonferroni: a group of
    paths gets its part of alpha, and so many more permutations that it can reach it.
    """
    del scores  # this null has scores of its own, on the test coordinates
    groups: dict[tuple[int, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.signatures[0].corner.shape[1], pair.exchangeable), []).append(pair)
    nulls: dict[str, Null] = {}
    for (_, exchangeable), group in groups.items():
        first = -(-len(pairs) // len(group)) * (criteria.permutations_at_first + 1) - 1
        drawn = sequential_nulls({pair.path: pair.signatures for pair in group}, first, criteria.seed)
        for path, null in drawn.items():
            nulls[path] = replace(null, not_exchangeable=not exchangeable, part=len(group) / len(pairs))
    return nulls


def _empirical(pairs: Sequence[Pair], scores: Mapping[str, float], criteria: Criteria) -> Mapping[str, Null]:
    """One null for each path of which scores of independent models are known; each has its part of alpha."""
    return {
        pair.path: replace(criteria.independent[pair.path], observed=scores[pair.path], alpha=criteria.alpha)
        for pair in pairs
        if pair.path in criteria.independent
    }


Make = Callable[[Sequence[Pair], Mapping[str, float], Criteria], Mapping[str, Null]]
"""Makes nulls from both models along all paths, their scores by path and the criteria; none for a path without one."""

NULLS: dict[str, Make] = {"permutation": _permutation, "empirical": _empirical}


def deciding(nulls: Sequence[Null]) -> Null | None:
    """Return the null that decides the verdict, the first without an objection; None if all have one."""
    return next((null for null in nulls if not null.objection), None)
