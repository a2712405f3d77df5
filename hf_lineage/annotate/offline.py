"""Offline: what was verified is not taken back because this machine may not ask the Hub."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.errors import CardError, printable
from hf_lineage.evidence import Kind
from hf_lineage.hub import client
from hf_lineage.report.record import FILE, Record


def refuse_to_forget(old: Record | None, report: Report) -> None:
    """Raise CardError if a base that a record calls verified cannot be read now, where requests are forbidden."""
    if old is None or not client.offline():
        return
    verified = {claim.base for claim in old.claims if claim.verified}
    for row in report.rows:
        if row.claim.base in verified and row.verdict.kind is Kind.UNVERIFIABLE:
            raise CardError(
                f"{printable(row.claim.base, 200)} was verified before ({FILE} records it), but cannot be read now "
                "because HF_HUB_OFFLINE forbids requests; unset HF_HUB_OFFLINE to keep the record"
            )
