"""Measure: two signatures -> the evidence along every path.

To add a null, add an entry to the table NULLS; no other module changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from hf_lineage.errors import SignatureError
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.nulls import DOUBTFUL, Null, deciding, sequential_nulls
from hf_lineage.evidence.paths import Comparison, compare_paths
from hf_lineage.evidence.units import inherited_units
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature import PathSignature, Signature

Layers = tuple[tuple[int, ...], tuple[int, ...]]
"""Numbers of layers, of the base and of the candidate."""


@dataclass(frozen=True)
class Pair:
    """Both models along one path."""

    path: str
    signatures: tuple[PathSignature, PathSignature]
    """Signatures of the base and of the candidate."""
    layers: Layers
    exchangeable: bool = True
    """Whether both architectures treat all residual coordinates alike."""

    @classmethod
    def align(cls, path: str, base: Signature, candidate: Signature) -> Pair:
        """Return the pair of two signatures along a path."""
        both, numbers = (base.paths[path], candidate.paths[path]), (base.numbers(path), candidate.numbers(path))
        return cls(path, both, numbers, base.exchangeable and candidate.exchangeable)

    @classmethod
    def along(cls, path: str, base: PathSignature, candidate: PathSignature) -> Pair:
        """Return the pair of two path signatures, whose layers are numbered from 0."""
        return cls(path, (base, candidate), (tuple(range(len(base.trace))), tuple(range(len(candidate.trace)))))

    @property
    def not_finite(self) -> Layers:
        """The numbers of the layers with values that are not finite."""
        base, candidate = (
            tuple(number for number, finite in zip(layers, signature.finite, strict=True) if not finite)
            for signature, layers in zip(self.signatures, self.layers, strict=True)
        )
        return base, candidate


def same_recipe(a: Signature, b: Signature) -> None:
    """Raise SignatureError unless every parameter that changes a number is the same in both signatures."""
    first, second = asdict(a.recipe), asdict(b.recipe)
    unlike = [f"{key} {first[key]} and {second[key]}" for key in first if first[key] != second[key]]
    if unlike:
        raise SignatureError(f"{a.model} and {b.model} differ in recipe ({', '.join(unlike)}); extract both with one")


def _permutation(pairs: Sequence[Pair], scores: Mapping[str, float], criteria: Criteria) -> Mapping[str, Null]:
    """Return one null for all paths with the same number of test coordinates: they share their permutations.

    Paths may have different numbers, as stacks of different widths do. These are corrected for by Bonferroni: each
    group of paths gets its part of alpha, and enough further permutations to reach it.
    """
    del scores  # this null has scores of its own, on the test coordinates
    groups: dict[tuple[int, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.signatures[0].corner.shape[1], pair.exchangeable), []).append(pair)
    nulls: dict[str, Null] = {}
    for (_, exchangeable), group in groups.items():
        part = len(group) / len(pairs)
        first = criteria.permutations_at_first(part)
        drawn = sequential_nulls({pair.path: pair.signatures for pair in group}, first, criteria.seed)
        for path, null in drawn.items():
            nulls[path] = replace(null, not_exchangeable=not exchangeable, part=part)
    return nulls


def _empirical(pairs: Sequence[Pair], scores: Mapping[str, float], criteria: Criteria) -> Mapping[str, Null]:
    """Return one null for each path of which scores of independent models are known; each has its part of alpha."""
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
    """Return the evidence along one path; p is corrected for paths and interim analyses."""
    first = deciding(nulls) or nulls[-1]
    unlikely = first.p_over_paths > DOUBTFUL
    return Evidence(
        comparison,
        tuple(nulls),
        min(1.0, criteria.tests * first.p_over_paths),
        pair.layers,
        analyses=criteria.analyses,
        further=criteria.further,
        inherited=None
        if any(pair.not_finite)
        else inherited_units(*pair.signatures, comparison, criteria.seed, fewer=unlikely),
        not_finite=pair.not_finite,
        sampled=pair.signatures[1].sampled,
    )
