"""Measure: two signatures -> the evidence along every path.

To add a null, add an entry to the table NULLS; no other module changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.nulls import Null, deciding, sequential_nulls
from hf_lineage.evidence.paths import Comparison, Pair, compare_paths
from hf_lineage.evidence.units import inherited_units
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature import Signature


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


def measure(base: Signature, candidate: Signature, criteria: Criteria) -> dict[str, Evidence]:
    """Return everything that is measured between two signatures of one recipe, by path."""
    return measured([Pair.align(path, base, candidate) for path in criteria.paths], criteria)


def measured(pairs: Sequence[Pair], criteria: Criteria) -> dict[str, Evidence]:
    """Return everything that is measured between two models along some paths."""
    comparisons = {pair.path: compare_paths(*pair.signatures) for pair in pairs}
    scores = {path: comparison.score for path, comparison in comparisons.items()}
    made = [make(pairs, scores, criteria) for make in NULLS.values()]
    return {
        pair.path: _evidence(pair, comparisons[pair.path], [by[pair.path] for by in made if pair.path in by], criteria)
        for pair in pairs
    }


def _evidence(pair: Pair, comparison: Comparison, nulls: Sequence[Null], criteria: Criteria) -> Evidence:
    """What was measured along one path; p is corrected for paths and interim analyses."""
    first = deciding(nulls) or nulls[-1]
    return Evidence(
        comparison,
        tuple(nulls),
        min(1.0, criteria.tests * first.p_over_paths),
        pair.layers,
        analyses=criteria.analyses,
        further=criteria.further,
        inherited=None if any(pair.not_finite) else inherited_units(*pair.signatures, comparison, criteria.unit_seed),
        left_out=pair.left_out,
        not_finite=pair.not_finite,
        idle=pair.idle,
        sampled=pair.signatures[1].sampled,
    )
