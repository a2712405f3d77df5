"""Measure: two signatures -> the evidence along every path."""

from __future__ import annotations

from collections.abc import Sequence

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.derivation import Readers
from hf_lineage.evidence.nulls import NULLS, Null, deciding
from hf_lineage.evidence.paths.comparison import Comparison, compare_paths
from hf_lineage.evidence.paths.pair import Pair
from hf_lineage.evidence.units import inherited_units
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature import Signature


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


def _readers(pair: Pair) -> Readers | None:
    """What shares are measured on, if both signatures hold it."""
    base, candidate = pair.signatures
    if base.readers is None or candidate.readers is None:
        return None
    return Readers(base.readers, candidate.readers, pair.layers, candidate.sampled is not None)


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
        readers=_readers(pair),
        sampled=pair.signatures[1].sampled,
    )
