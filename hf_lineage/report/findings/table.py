"""The table of findings: a new one is a module and a line here, and every report prints it.

Beside it everything that a report says below the table of claims, and what became of one claim in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.report.findings import descent, merge
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording

OfClaim = Callable[[Report, Row], Finding | None]
OfReport = Callable[[Report], Finding | None]


@dataclass(frozen=True)
class Maker:
    """Functions that describe one kind of finding: in each claim, in a report as a whole, or in both."""

    name: str
    of_claim: OfClaim | None = None
    of_report: OfReport | None = None
    claim_key: str = ""
    """The key of its values in a claim of the JSON report; empty where they stand under `findings`."""
    report_key: str = ""
    """Likewise in the report."""
    absent: Any = None
    """The value of `claim_key` if there is no finding."""


def _late(module: str, measured: Callable[[Any], object], name: str = "describe") -> Callable[..., Finding | None]:
    """Return a function that describes, in a module imported on demand, what few claims or reports have."""
    return lambda *about: (
        None if measured(about[-1]) is None else getattr(import_module(f"{__package__}.{module}"), name)(*about)
    )


POLICY = _late("notes", lambda report: report.policy, "describe_policy")
WAIVER = _late("notes", lambda row: row.waiver, "describe_waiver")
UNMET = _late("notes", lambda row: row.unmet or None, "describe_unmet")


MAKERS = (
    Maker("strict", _late("strict", lambda row: row.verdict.strict), claim_key="strict"),
    Maker("blend", of_report=_late("blend", lambda report: report.blended), report_key="blend"),
    Maker("parts", of_report=_late("part_by_part", lambda report: report.parts or None)),
    Maker("descent", descent.describe),
    Maker("adapter", _late("adapter", lambda row: row.verdict.trace), claim_key="adapter"),
    Maker("merge", merge.describe_parent, merge.describe_merge, claim_key="parent"),
    Maker("units", _late("units", lambda row: row.verdict.framed), claim_key="units"),
    Maker("equal", _late("equal", lambda row: row.verdict.equal)),
    Maker("executed", _late("executed", lambda row: row.verdict.executed), claim_key="executed"),
    Maker("relation", descent.describe_relation, claim_key="relation_seen"),
    Maker("waiver", WAIVER, POLICY, "waiver", "policy"),
    Maker("unmet", UNMET, claim_key="unmet", absent=[]),
)
"""In the order in which reports print them."""


def describe_claim(report: Report, row: Row) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of one claim of a report, with what made it."""
    for maker in MAKERS:
        if maker.of_claim and (finding := maker.of_claim(report, row)):
            yield maker, finding


def describe_report(report: Report) -> Iterator[tuple[Maker, Finding]]:
    """Yield each finding of a report that concerns no single claim, with what made it."""
    for maker in MAKERS:
        if maker.of_report and (finding := maker.of_report(report)):
            yield maker, finding


def place_claim(report: Report, row: Row) -> tuple[dict[str, Any], dict[str, Finding]]:
    """Return the values of a claim by their keys in the JSON report, and by name the findings that have no such key."""
    absent = {maker.claim_key: maker.absent for maker in MAKERS if maker.claim_key}
    triples = [(maker.name, maker.claim_key, finding) for maker, finding in describe_claim(report, row)]
    return _placed(absent, triples)


def place_report(report: Report) -> tuple[dict[str, Any], dict[str, Finding]]:
    """Return the same of what concerns no single claim."""
    absent = {maker.report_key: None for maker in MAKERS if maker.report_key}
    triples = [(maker.name, maker.report_key, finding) for maker, finding in describe_report(report)]
    return _placed(absent, triples)


def _placed(
    absent: dict[str, Any], triples: Sequence[tuple[str, str, Finding]]
) -> tuple[dict[str, Any], dict[str, Finding]]:
    own = {key: finding.values for _, key, finding in triples if key}
    return absent | own, {name: finding for name, key, finding in triples if not key}


def state_outcome(row: Row) -> str:
    """Return what became of one claim in one sentence on one line."""
    from hf_lineage.report.findings.notes import besides

    evidence, trace, framed = wording.best(row), row.verdict.trace, row.verdict.framed
    measured = f" ({wording.figures(evidence)})" if evidence else f" (p = {trace.p_value:.3g})" if trace else ""
    if framed and row.verdict.by_units:
        measured = f" ({wording.share_of_units(framed)} of its units inherited, p = {wording.order_p(framed)})"
    why = f": {wording.reason(row)}" if row.verdict.reason else ""
    return f"{wording.about(row)} is {row.verdict.label}{measured}{why}{besides(row)}"


def reasons(report: Report) -> Iterator[str]:
    """Yield the sentences that belong under the table: why a row is undecided, its findings, and what was read for it.

    A sentence about several rows stands there once.
    """
    shared, noted = _shared(report), set[str]()
    yield from state_first(report)
    for row in report.rows:
        if row.verdict.reason and (bases := shared.pop(wording.reason(row), None)):
            yield f"{', '.join(bases)}: {wording.reason(row)}"
        yield from (*wording.corrected(row), *wording.measured(row))
        for _, finding in describe_claim(report, row):
            yield from map(finding.named, finding.sentences)
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


def state_all(report: Report) -> Iterator[str]:
    """Yield what all findings of a report say: what is said first, then claim by claim."""
    yield from state_first(report)
    for row in report.rows:
        for _, finding in describe_claim(report, row):
            yield from finding.statements
    for _, finding in describe_report(report):
        yield from () if finding.first else finding.statements


def _shared(report: Report) -> dict[str, list[str]]:
    """Return each reason, with the bases whose rows have it."""
    shared: dict[str, list[str]] = {}
    for row in report.rows:
        shared.setdefault(wording.reason(row), []).append(wording.about(row))
    return shared
