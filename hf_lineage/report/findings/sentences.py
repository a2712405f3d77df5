"""Everything that a report says below the table of claims, and what became of one claim in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.report.findings.table import describe_claim, describe_report
from hf_lineage.report.findings.waivers import besides
from hf_lineage.report.words import wording


def state_outcome(row: Row) -> str:
    """Return what became of one claim in one sentence on one line."""
    evidence, trace, framed = wording.best(row), row.verdict.trace, row.verdict.framed
    measured = f" ({wording.figures(evidence)})" if evidence else f" (p = {trace.p_value:.3g})" if trace else ""
    if framed and row.verdict.by_units:
        measured = f" ({wording.share_of_units(framed)} of its units inherited, p = {wording.order_p(framed)})"
    why = f": {wording.reason(row)}" if row.verdict.reason else ""
    return f"{wording.about(row)} is {row.verdict.words}{measured}{why}{besides(row)}"


def reasons(report: Report) -> Iterator[str]:
    """Yield the sentences that belong under the table: why a row is undecided, what was found, what was read for it.

    What concerns several rows is said once.
    """
    shared, noted = _shared(report), set[str]()
    yield from state_first(report)
    for row in report.rows:
        if row.verdict.reason and (bases := shared.pop(wording.reason(row), None)):
            yield f"{', '.join(bases)}: {wording.reason(row)}"
        yield from (*wording.corrected(row), *wording.measured(row))
        for _, finding in describe_claim(report, row):
            yield from map(finding.named, finding.sentences)
        yield from wording.left_out(row)
        yield from (printable(note) for note in row.notes if note not in noted)
        noted |= {*row.notes}
        yield from (*wording.origins(row), *wording.reading(row))
    if not report.rows:
        yield wording.NOTHING_DECLARED
    for _, finding in describe_report(report):
        yield from () if finding.first else map(finding.named, finding.sentences)
    yield from wording.remarks(report)


def state_first(report: Report) -> Iterator[str]:
    """Yield what every report says before everything else."""
    for _, finding in describe_report(report):
        yield from map(finding.named, finding.sentences) if finding.first else ()


def state_claim(report: Report, row: Row) -> Iterator[str]:
    """Yield what every finding of one claim says, in few sentences."""
    for _, finding in describe_claim(report, row):
        yield from finding.statements


def state_report(report: Report) -> Iterator[str]:
    """Yield the same of the findings that concern no single claim."""
    for _, finding in describe_report(report):
        yield from finding.statements


def state_all(report: Report) -> Iterator[str]:
    """Yield what all findings of a report say: what is said first, then claim by claim."""
    yield from state_first(report)
    for row in report.rows:
        yield from state_claim(report, row)
    for _, finding in describe_report(report):
        yield from () if finding.first else finding.statements


def _shared(report: Report) -> dict[str, list[str]]:
    """Each reason, with the bases whose rows have it."""
    shared: dict[str, list[str]] = {}
    for row in report.rows:
        shared.setdefault(wording.reason(row), []).append(wording.about(row))
    return shared
