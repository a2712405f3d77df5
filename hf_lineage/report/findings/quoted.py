"""What others quote of two models, each number beside that of independent models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import NOTHING, Kind, Quotable, among
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("What is quoted", "This pair", "Independent models", "Worth")
HIGH = 0.9
"""From where on a number sounds like descent."""


def describe(_report: Report, row: Row) -> Finding:
    """Return the numbers that others would quote, with what each is worth."""
    kinds, lines = _kinds(row), tuple(_lines(row))
    return Finding(
        "What others quote",
        wording.about(row),
        tuple(_explained(row, kinds)),
        tables=(Table("numbers that decide no verdict", COLUMNS, lines, numeric=(1, 2)),),
        values={
            name: {"value": value, "low": kind.low, "high": kind.high, "worth": kind.worth(value)}
            for name, kind in kinds.items()
            for value in (row.quoted[name],)
        },
    )


def state_quoted(row: Row) -> Iterator[str]:
    """Yield each of these numbers in a sentence."""
    for words, value, independent, worth in _lines(row):
        yield f"{words}: {value}; independent models have {independent}: {worth}"


def _kinds(row: Row) -> dict[str, Quotable]:
    return {name: kind for name, kind in among(()).items() if name in row.quoted}


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    for name, kind in _kinds(row).items():
        yield kind.words, f"{row.quoted[name]:.3f}", kind.independent, kind.worth(row.quoted[name])


def _explained(row: Row, kinds: Mapping[str, Quotable]) -> list[str]:
    """High numbers of a pair that is unrelated, which independent models reach as well."""
    if row.verdict.kind is not Kind.UNRELATED:
        return []
    return [
        f"{kind.words}: {row.quoted[name]:.3f}; independent models have {kind.independent}, so that the "
        "number decides nothing"
        for name, kind in kinds.items()
        if row.quoted[name] >= HIGH and kind.worth(row.quoted[name]) == NOTHING
    ]
