"""Licences: what the cards of a model and of the base that its weights confirm state, side by side.

It is what their authors wrote, and a note: no verdict depends on it, and it says nothing about what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.claims import Licence
from hf_lineage.errors import printable
from hf_lineage.report.findings.finding import Finding

TITLE = "Licence"
DIFFER = "; the two differ, read both. This is a note, not legal advice"
UNSTATED = "none stated"
"""The text for a card that states no licence; it is not a licence called none."""


def describe_base(report: Report, row: Row) -> Finding | None:
    """Return what the two cards state; in words once for each verified base, however many parts of it are compared."""
    sentences = tuple(_sentences(report, row))
    if row.licence is None and not sentences:
        return None
    return Finding(TITLE, printable(row.claim.base, 200), sentences, values=_values(row.licence))


def describe_model(report: Report) -> Finding | None:
    """Return what the card of the model states, for machines; None where it states nothing."""
    return Finding(TITLE, values=_values(report.licence)) if report.licence else None


def _sentences(report: Report, row: Row) -> Iterator[str]:
    verified = (one for one in report.rows if one.verdict.verified and one.claim.base == row.claim.base)
    if next(verified, None) is not row or (report.licence is None and row.licence is None):
        return
    model, base = str(report.licence or UNSTATED), str(row.licence or UNSTATED)
    end = DIFFER if report.licence and row.licence and report.licence.differs(row.licence) else ""
    stated = f"the cards state it: {model} for the model, {base} for the base"
    yield f"licence as {f'both cards state it: {model}' if model == base else stated}{end}"


def _values(licence: Licence | None) -> dict[str, Any] | None:
    """A licence under the keys of a card."""
    if licence is None:
        return None
    return {"license": licence.identifier or None, "name": licence.name or None, "link": licence.link or None}
