"""Summary of a claim: at most three lines that stand below the table of a report without `--explain`."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Evidence, Verdict
from hf_lineage.report.findings.table import describe_claim, state_first
from hf_lineage.report.words import advise, texts_of, whole, wording

DETAILS, NEXT = "Details: --explain", "Next: "
MOST = 2
"""Sentences of what is in doubt, or was not looked at."""


def summarize(report: Report) -> Iterator[str]:
    """Yield the lines of every claim, then what concerns them all; a line about several claims stands there once."""
    yield from map(whole, state_first(report))
    several = len({wording.about(row) for row in report.rows}) > 1
    lines: dict[str, list[str]] = {}
    for row in report.rows:
        for line in summarize_claim(report, row):
            lines.setdefault(line, []).append(wording.about(row))
    for line, bases in sorted(lines.items(), key=lambda one: one[0].startswith(NEXT)):
        names = ", ".join(dict.fromkeys(bases))
        named = f"Next for {names}: {line.removeprefix(NEXT)}" if line.startswith(NEXT) else f"{names}: {line}"
        yield named if several and len(bases) < len(report.rows) else line
    if not report.rows:
        yield wording.NOTHING_DECLARED
    yield from map(whole, wording.remarks(report))


def summarize_claim(report: Report, row: Row) -> Iterator[str]:
    """Yield what comes from the base and how the model was made, what is in doubt, and what to do next."""
    text, reason = texts_of(row.verdict), wording.reason(row)
    briefs = [finding.brief for _, finding in describe_claim(report, row) if finding.brief]
    head = briefs or [reason if row.verdict.verified and row.verdict.by_units else text.title]
    yield " ".join(map(whole, [*head, *_by_chance(row.verdict)]))
    doubts = list(_doubts(report, row))
    doubts = [*doubts[:MOST], *([f"{len(doubts) - MOST} more: --explain"] if len(doubts) > MOST else [])]
    if doubts:
        yield " ".join(map(whole, doubts))
    yield f"{NEXT}{advise(report, row)[0]}"


def _by_chance(verdict: Verdict) -> Iterator[str]:
    """Yield the highest score of independent models, where a path decided."""
    evidence = verdict.evidence.get(verdict.decisive or "")
    if evidence and verdict.is_related and not verdict.by_units:
        yield f"Unrelated models of this size score at most {_highest(evidence):.3f}"


def _highest(evidence: Evidence) -> float:
    empirical = evidence.empirical
    return empirical.threshold if empirical and empirical is evidence.first else evidence.permutation.range[1]


def _doubts(report: Report, row: Row) -> Iterator[str]:
    """Yield the reason of a verdict, the part of a policy that is not met, and files that were not looked at."""
    waiver, expired = row.waiver, row.expired
    if (reason := wording.reason(row)) and not row.verdict.verified:
        yield reason.partition("; ")[0] if row.verdict.is_related and row.verdict.evidence else reason
    yield from row.unmet
    if waiver:
        yield f"accepted until {waiver.expires}: {waiver.reason}"
    if expired:
        yield f"accepted only until {expired.expires}, and that day has passed"
    notes = (*row.own_code, *row.notes) if row.verdict.verified else row.notes  # otherwise the reason says it
    yield from (printable(note).removeprefix(f"{printable(report.model, 200)}: ") for note in notes)
