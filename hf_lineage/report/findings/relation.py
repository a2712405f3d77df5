"""Relation: how a model was made from its base, as the weights show it, beside the relation that it declares."""

from __future__ import annotations

from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.evidence.derivation import Derivation
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording


def describe(_report: Report, row: Row) -> Finding | None:
    """Return how a model was made from its base; None where that was not measured."""
    if row.derivation is None:
        return None
    where = "in the layers that are inherited, " if row.verdict.kind is Kind.IN_PART else ""
    declared = f"; declared: {printable(row.claim.relation, 40)}" if row.claim.relation else ""
    seen = f"relation seen: {where}{row.derivation.words}{declared}"
    return Finding("Relation", wording.about(row), (seen,), values=_values(row.derivation))


def _values(derivation: Derivation) -> dict[str, Any]:
    """The same for machines; null if it is not known."""
    return {
        "means": [means.value for means in derivation.means],
        "words": derivation.words,
        "bits": derivation.bits or derivation.stored_bits or None,
        "zeros": derivation.zeros or None,
        "rank": derivation.rank,
        "matrices": len(derivation.changes),
        "changed": len(derivation.changed),
    }
