"""Relation: how a model was made from its base, as the weights show it, in words and as values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.evidence.derivation import Derivation


def seen(row: Row, about: str) -> Iterator[str]:
    """Yield how a model was made, beside the relation that it declares; `about` names the base."""
    if row.derivation:
        where = "in the layers that are inherited, " if row.verdict.kind is Kind.IN_PART else ""
        declared = f"; declared: {printable(row.claim.relation, 40)}" if row.claim.relation else ""
        yield f"{about}: relation seen: {where}{row.derivation.words}{declared}"


def values(derivation: Derivation) -> dict[str, Any]:
    """Return the same for machines; what was not found is null."""
    return {
        "means": [means.value for means in derivation.means],
        "words": derivation.words,
        "bits": derivation.bits or derivation.stored_bits or None,
        "zeros": derivation.zeros or None,
        "rank": derivation.rank,
        "matrices": len(derivation.changes),
        "changed": len(derivation.changed),
    }
