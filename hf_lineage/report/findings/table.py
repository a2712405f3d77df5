"""The table of findings: a new one is a module and a line here, and every report prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.findings import descent, licences, merge, relation, waivers
from hf_lineage.report.findings.finding import Finding

OfClaim = Callable[[Report, Row], Finding | None]
OfReport = Callable[[Report], Finding | None]


@dataclass(frozen=True)
class Maker:
    """What describes one kind of finding: in each claim, in a report as a whole, or in both."""

    name: str
    of_claim: OfClaim | None = None
    of_report: OfReport | None = None
    claim_key: str = ""
    """The key of its values in a claim of the JSON report; empty where they stand under `findings`."""
    report_key: str = ""
    """Likewise in the report."""
    absent: Any = None
    """What stands under `claim_key` where nothing was found."""


def _late(module: str, measured: Callable[[Row], object]) -> OfClaim:
    """What describes in another module what few claims have; it is imported for a claim that has it."""
    return lambda report, row: (
        None if measured(row) is None else import_module(f"{__package__}.{module}").describe(report, row)
    )


def _late_of_report(module: str, measured: Callable[[Report], object]) -> OfReport:
    """The same of a report."""
    return lambda report: (
        None if measured(report) is None else import_module(f"{__package__}.{module}").describe(report)
    )


MAKERS = (
    Maker("blend", of_report=_late_of_report("blend", lambda report: report.blended), report_key="blend"),
    Maker("descent", descent.describe),
    Maker("adapter", _late("adapter", lambda row: row.verdict.trace), claim_key="adapter"),
    Maker("merge", merge.describe_parent, merge.describe_merge, claim_key="parent"),
    Maker("units", _late("units", lambda row: row.verdict.framed), claim_key="units"),
    Maker("quoted", _late("quoted", lambda row: row.quoted or None)),
    Maker("relation", relation.describe, claim_key="relation_seen"),
    Maker("licences", licences.describe_base, licences.describe_model, "base_license", "license"),
    Maker("waiver", waivers.describe_waiver, waivers.describe_policy, "waiver", "policy"),
    Maker("unmet", waivers.describe_unmet, claim_key="unmet", absent=[]),
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
