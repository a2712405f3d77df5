"""One claim on the page: the verdict and what it means, what to do next, the evidence, and what is claimed where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.report.findings import describe_claim
from hf_lineage.report.html.evidence import AlongPath, evidence
from hf_lineage.report.html.tiles import Tile, tiles
from hf_lineage.report.page import Commit, commit_of_base, commit_of_model, is_shown_apart, show, without_hint
from hf_lineage.report.words import advice, wording
from hf_lineage.report.words import commands as command


@dataclass(frozen=True)
class View:
    """What the page shows of one claim."""

    number: int
    """Which of all claims it is, counted from 0."""
    model: str
    row: Row
    reason: str
    beside: Sequence[str]
    """What findings say that belongs beside the verdict."""
    tiles: Sequence[Tile]
    steps: Sequence[str]
    """What to do next."""
    evidence: Sequence[AlongPath]
    findings: Sequence[tuple[str, Markup]]
    """Title and content of those that have a part of the page."""
    remarks: Sequence[str]
    of_model: Commit
    of_base: Commit
    sources: Sequence[str]
    """The files that declare it; none if whoever ran the check named it."""
    command: str
    """What checks this claim alone; empty if that is what the whole page was made by."""


def view_claim(report: Report, number: int, captions: bool, explain: bool) -> View:
    """Return everything about one claim of a report; `captions` is whether its pictures say what they mean.

    `explain` unfolds the tables of its findings.
    """
    row = report.rows[number]
    again = command.of_claim(report, row)
    return View(
        number=number,
        model=report.model,
        row=row,
        reason="" if row.verdict.kind is Kind.ADAPTER else wording.reason(row),
        beside=list(state_beside(report, row)),
        tiles=list(tiles(report, row)),
        steps=advice.NEXT[row.verdict.kind],
        evidence=list(evidence(row, number, captions)),
        findings=[
            (one.title, show(one, f"claim {number + 1}, ", explain))
            for _, one in describe_claim(report, row)
            if is_shown_apart(one)
        ],
        remarks=list(dict.fromkeys(_remarks(report, row))),
        of_model=commit_of_model(report),
        of_base=commit_of_base(row),
        sources=() if row.claim.sources == NAMED else row.claim.sources,
        command="" if again == command.of_report(report) else again,
    )


def state_beside(report: Report, row: Row) -> Iterator[str]:
    """Yield what findings say that belongs beside the verdict."""
    for _, finding in describe_claim(report, row):
        if finding.in_verdict:
            yield from (*finding.sentences, *finding.details)


def _remarks(report: Report, row: Row) -> Iterator[str]:
    """What was seen besides, without the name of the model or of the base in front, which the headlines have."""
    about, model = wording.about(row), printable(report.model, 200)
    findings = (one for _, one in describe_claim(report, row) if not (is_shown_apart(one) or one.in_verdict))
    sentences = (
        *(sentence for one in findings for sentence in one.sentences),
        *map(printable, row.notes),
        *wording.left_out(row),
        *wording.origins(row),
        *wording.reading(row),
    )
    for sentence in sentences:
        yield without_hint(sentence.removeprefix(f"{about}: ").removeprefix(f"{model}: "))
