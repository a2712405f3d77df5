"""Numbers of a model that are its base's, bit for bit, where they were compared one by one."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording


def describe(_report: Report, row: Row) -> Finding | None:
    """Return how much of each layer is inherited at least; None if that was not measured, or shows nothing."""
    equal = row.verdict.equal
    if equal is None:
        return None
    columns = {"equal": equal.equal, "energy": equal.energy, "inherited_at_least": equal.at_least}
    values = {key: dict(zip(map(str, equal.layers), map(float, one), strict=True)) for key, one in columns.items()}
    by_layer = ", ".join(f"{layer}: {share:.1%}" for layer, share in values["inherited_at_least"].items())
    halves = {"p_permutations": equal.permuted.p_value, "p_signs": equal.flipped.p_value}
    details = (f"inherited at least, by layer: {by_layer}",)
    every = {**values, **halves, "p_value_adjusted": equal.p_value}
    return Finding("Equal numbers", wording.about(row), details=details, values=every)
