"""A report for the Code Quality widget of GitLab's merge requests: an entry for each claim that does not hold.

The format is the subset of the Code Climate specification that GitLab reads (GitLab Docs, "Code Quality", "Implement a
custom tool"). The widget compares the entries of two branches by their fingerprints, and shows what is new.
"""

from __future__ import annotations

from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.report.findings import state_claim, state_first, state_outcome, state_report
from hf_lineage.report.words import KINDS, Place, card, encode, fingerprint, holds, places, wording

SEVERITIES = {"none": "info", "note": "minor", "warning": "major", "error": "critical"}
"""Level of a rule -> GitLab's word."""
UNDECLARED, PARENTS = "undeclared", "undeclared-parent"
"""The finding if nothing is declared, and if not all parents are."""


def render(report: Report, explain: bool = False) -> str:
    """Return the entries as a JSON array, empty where every claim holds; `explain` adds nothing."""
    del explain
    claims = zip(report.rows, places(report), strict=True)
    entries = [_claim(report, row, found_at[0]) for row, found_at in claims if not holds(row)]
    entries += [_parents(report)] if report.undeclared else []
    return encode(entries if report.rows else [_undeclared(report)])


def _claim(report: Report, row: Row, place: Place) -> dict[str, Any]:
    """The entry of a claim: what is accepted is information, what holds and lacks what a policy asks for a warning."""
    rule = KINDS[row.verdict.kind].rule
    level = "none" if row.waiver else "warning" if row.unmet and rule.level != "error" else rule.level
    mark = fingerprint(report, row, rule.identifier)
    sentences = (state_outcome(row), *state_claim(report, row), *state_report(report))
    described = " ".join(f"{sentence}." for sentence in sentences)
    return _entry(f"{printable(report.model, 200)}: {described}", rule.identifier, level, mark, place)


def _parents(report: Report) -> dict[str, Any]:
    """The entry of the parents that the model does not name; information where a policy accepts them."""
    sentences = " ".join(f"{sentence}." for sentence in state_first(report))
    level, mark = "warning" if report.counted else "none", fingerprint(report, None, PARENTS)
    return _entry(f"{printable(report.model, 200)}: {sentences}", PARENTS, level, mark, card(report))


def _undeclared(report: Report) -> dict[str, Any]:
    remarks = " ".join((wording.NOTHING_DECLARED, *(f"{remark}." for remark in wording.remarks(report))))
    level, mark = "warning" if report.unmet else "note", fingerprint(report, None, UNDECLARED)
    return _entry(f"{printable(report.model, 200)}: {remarks}", UNDECLARED, level, mark, card(report))


def _entry(description: str, finding: str, level: str, mark: str, place: Place) -> dict[str, Any]:
    return {
        "description": f"Lineage of {description}",
        "check_name": f"lineage/{finding}",
        "fingerprint": mark,
        "severity": SEVERITIES[level],
        "location": {"path": place.path, "lines": {"begin": place.line or 1}},
    }
