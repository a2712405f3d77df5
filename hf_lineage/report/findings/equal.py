"""Which numbers of a model are its base's, bit for bit, where they were compared one by one."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import EqualNumbers
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording


def describe(_report: Report, row: Row) -> Finding | None:
    """Return how much is equal in each layer; None if that was not measured, or shows nothing."""
    equal = row.verdict.equal
    if equal is None:
        return None
    shares = zip(equal.layers, equal.at_least, strict=True)
    by_layer = ", ".join(f"{layer}: {share:.1%}" for layer, share in shares)
    return Finding(
        "Equal numbers",
        wording.about(row),
        details=(f"inherited at least by layer: {by_layer}",),
        values=_values(equal),
    )


def _values(equal: EqualNumbers) -> dict[str, object]:
    columns = zip(equal.layers, equal.equal, equal.energy, equal.at_least, strict=True)
    names = ("layer", "equal", "energy", "inherited_at_least")
    return {
        "p_value": max(equal.permuted.p_value, equal.flipped.p_value),
        "p_value_adjusted": equal.p_value,
        "by_permutations": equal.permuted.p_value,
        "by_signs": equal.flipped.p_value,
        "equal": float(equal.equal.mean()),
        "inherited_at_least": equal.share,
        "layers": [dict(zip(names, (one[0], *map(float, one[1:])), strict=True)) for one in columns],
    }
