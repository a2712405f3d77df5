"""Limits of a verdict: printed with `--explain`, and on every page, where something was measured."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.report.words.verdicts import sentences


def describe_limits(report: Report) -> tuple[str, ...]:
    """Return what the verdicts do not say; nothing where nothing was measured."""
    measured = [row.verdict for row in report.rows if row.verdict.evidence or row.verdict.framed]
    ran = all(verdict.executed and not verdict.executed.problem for verdict in measured)
    of_models = (*sentences("limits").values(), sentences("weights")["run" if ran else "stored"])
    of_adapters = sentences("adapters").values() if any(row.verdict.trace for row in report.rows) else ()
    return (*(of_models if measured else ()), *of_adapters)
