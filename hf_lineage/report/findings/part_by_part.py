"""The parts of a model side by side: of each its base, the verdict, and what is inherited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.report.findings.finding import Bar, Bars, Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("Part", "Base", "Verdict", "Inherited")
ITSELF = "the model itself"
"""Name of the rows that are about no part: of a model with a tower its language model."""


def describe(report: Report) -> Finding:
    """Return the rows of all parts beside each other."""
    bars = _bars(report.rows)
    return Finding(
        "The parts side by side",
        details=("Nothing about one part follows from another: each is compared with its own counterpart.",),
        tables=(Table("part by part", COLUMNS, tuple(map(_line, report.rows)), numeric=(3,)),),
        picture=Bars(bars, "How much of what each part writes is inherited.") if bars else None,
        values=[_values(row) for row in report.rows],
    )


def _named(row: Row) -> str:
    return printable(row.part, 100) or ITSELF


def _line(row: Row) -> tuple[str, ...]:
    share = wording.inherited_share(row)
    return _named(row), printable(row.claim.base, 200), row.verdict.label, "" if share is None else f"{share:.0%}"


def _bars(rows: Sequence[Row]) -> tuple[Bar, ...]:
    return tuple(
        Bar(f"{_named(row)}: {printable(row.claim.base, 200)}", share, *ends, pale=not row.verdict.is_related)
        for row, share, ends in _measured(rows)
    )


def _measured(rows: Sequence[Row]) -> Iterator[tuple[Row, float, tuple[float, float]]]:
    for row in rows:
        measured = row.verdict.framed if row.verdict.by_units else wording.best(row)
        if measured and measured.inherited:
            yield row, measured.inherited.share, measured.inherited.interval


def _values(row: Row) -> dict[str, object]:
    return {
        "part": printable(row.part, 100),
        "base": printable(row.claim.base, 200),
        "verdict": row.verdict.word,
        "code": row.verdict.code,
        "verified": row.verdict.verified,
        "inherited": wording.inherited_share(row),
    }
