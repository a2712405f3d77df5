"""Waivers: what accepts a finding, and what a claim lacks, in words and as values. The verdict is told beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row


def besides(row: Row) -> str:
    """Return what accepts a finding or what it lacks, as the end of a sentence about it; empty where nothing does."""
    waived = (f"accepted until {row.waiver.expires}: {row.waiver.reason}",) if row.waiver else ()
    expired = (f"accepted until {row.expired.expires}, which is past",) if row.expired else ()
    return "".join(f"; {part}" for part in (*waived, *expired, *row.unmet))


def sentences(row: Row, about: str) -> Iterator[str]:
    """Yield what accepts the verdict on a claim, and what it lacks that the policy asks for; `about` names the base."""
    if row.waiver:
        yield f"{about}: {row.verdict.words} is accepted until {row.waiver.expires}: {row.waiver.reason}"
    yield from (f"{about}: {unmet}" for unmet in row.unmet)


def of_claim(row: Row) -> dict[str, Any]:
    """Return the same for machines."""
    waiver = row.waiver and {"reason": row.waiver.reason, "expires": row.waiver.expires.isoformat()}
    return {"waiver": waiver, "unmet": list(row.unmet)}


def of_report(report: Report) -> dict[str, Any] | None:
    """Return the policy of a report for machines, with what it makes of the check; None without one."""
    policy = report.policy
    if policy is None:
        return None
    return {
        "source": policy.source or None,
        "fail_on": policy.fail_on,
        "evidence": policy.evidence,
        "own_code": policy.own_code,
        "relations": list(policy.relations),
        "accepted": sum(row.waiver is not None for row in report.rows),
        "exit_code": int(report.status),
    }
