"""Measure: two signatures -> the evidence along every path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hf_lineage.evidence.comparison import Comparison, compare_paths
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.inherited import inherited_units
from hf_lineage.evidence.nulls import NULLS, Null, deciding
from hf_lineage.evidence.pair import Pair
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature.values import Signature


def measure(base: Signature, candidate: Signature, criteria: Criteria) -> dict[str, Evidence]:
    """Return everything that is measured between two signatures of one recipe, by path."""
    return measured([Pair.of(path, base, candidate) for path in criteria.paths], criteria)


def measured(pairs: Sequence[Pair], criteria: Criteria) -> dict[str, Evidence]:
    """Return everything that is measured between two models along some paths."""
    comparisons = {pair.path: compare_paths(*pair.signatures) for pair in pairs}
    nulls = {pair.path: tuple(_nulls(pair, comparisons[pair.path], criteria)) for pair in pairs}
    p_values = _corrected(nulls, criteria.analyses)
    return {
        pair.path: Evidence(
            comparisons[pair.path],
            nulls[pair.path],
            p_values[pair.path],
            pair.layers,
            analyses=criteria.analyses,
            inherited=None
            if any(pair.not_finite)
            else inherited_units(*pair.signatures, comparisons[pair.path], criteria.unit_seed),
            left_out=pair.left_out,
            not_finite=pair.not_finite,
            sampled=pair.signatures[1].sampled,
        )
        for pair in pairs
    }


def _nulls(pair: Pair, comparison: Comparison, criteria: Criteria) -> Iterator[Null]:
    for make in NULLS.values():
        null = make(pair, comparison.score, criteria)
        if null is not None:
            yield null


def _corrected(nulls: Mapping[str, tuple[Null, ...]], analyses: int) -> dict[str, float]:
    """The p-value of the null that decides each path, corrected for the number of paths and of interim analyses."""
    first = {path: deciding(tried) or tried[-1] for path, tried in nulls.items()}
    adjusted = holm({path: null.p_value for path, null in first.items() if not null.paths_counted})
    alone = {path: null.p_value for path, null in first.items()}
    return {path: min(1.0, analyses * p_value) for path, p_value in (alone | adjusted).items()}


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted for having tested several paths (Holm 1979).

    >>> holm({"mlp": 0.004, "value_output": 0.03})
    {'mlp': 0.008, 'value_output': 0.03}
    """
    adjusted: dict[str, float] = {}
    least = 0.0
    for rank, path in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[path]))
        adjusted[path] = least
    return adjusted
