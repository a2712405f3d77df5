"""Licences: what the cards of a model and of the base that its weights bear out state, side by side.

It is what their authors wrote, and a note: no verdict depends on it, and it says nothing about what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.claims import Licence
from hf_lineage.errors import printable

DIFFER = "; the two differ, read both: this is a note and no legal advice"


def of_pair(report: Report, row: Row) -> tuple[str, str] | None:
    """Return the licences of a model and of a verified base as they are shown; None where neither card states one."""
    if not row.verdict.verified or (report.licence is None and row.licence is None):
        return None
    return shown(report.licence), shown(row.licence)


def differ(report: Report, row: Row) -> bool:
    """Return whether both cards state a licence, and not the same."""
    if report.licence is None or row.licence is None or not row.verdict.verified:
        return False
    return report.licence.differs(row.licence)


def sentences(report: Report, row: Row) -> Iterator[str]:
    """Yield what the two cards state, once for each base however many parts of it are compared."""
    alike = (one for one in report.rows if one.verdict.verified and one.claim.base == row.claim.base)
    if next(alike, None) is row and (pair := of_pair(report, row)):
        base, end = printable(row.claim.base, 200), DIFFER if differ(report, row) else ""
        stated = f"the cards state it: {pair[0]} for the model, {pair[1]} for the base"
        yield f"{base}: licence as {f'both cards state it: {pair[0]}' if pair[0] == pair[1] else stated}{end}"


def facts(report: Report, row: Row) -> Iterator[tuple[str, str]]:
    """Yield the same as pairs of a name and a value, for a list."""
    if pair := of_pair(report, row):
        yield "Licence of the model, by its card", pair[0]
        yield "Licence of the base, by its card", f"{pair[1]}{DIFFER if differ(report, row) else ''}"


def values(licence: Licence | None) -> dict[str, Any] | None:
    """Return a licence for machines, under the keys of a card."""
    if licence is None:
        return None
    return {"license": licence.identifier or None, "name": licence.name or None, "link": licence.link or None}


def shown(licence: Licence | None) -> str:
    """Return a licence as a card states it; that none is stated is no licence called none."""
    return "none stated" if licence is None else str(licence)
