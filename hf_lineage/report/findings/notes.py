"""Notes beside the verdict of a claim, which it does not depend on: a policy accepts the claim, or finds a lack."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording


def describe_waiver(_report: Report, row: Row) -> Finding | None:
    """Return what accepts the verdict on a claim; None where nothing does."""
    if row.waiver is None:
        return None
    accepted = f"{row.verdict.label} is accepted until {row.waiver.expires}: {row.waiver.reason}"
    values = {"reason": row.waiver.reason, "expires": row.waiver.expires.isoformat()}
    return Finding("Accepted", wording.about(row), sentences=(accepted,), values=values)


def describe_unmet(_report: Report, row: Row) -> Finding | None:
    """Return what the policy requires and a claim lacks; None if it lacks nothing."""
    return (
        Finding("Policy not met", wording.about(row), sentences=row.unmet, values=list(row.unmet))
        if row.unmet
        else None
    )


def describe_policy(report: Report) -> Finding | None:
    """Return the policy for machines, with what it makes of the check; None without one."""
    policy = report.policy
    if policy is None:
        return None
    values = {
        "source": policy.source or None,
        "fail_on": policy.fail_on,
        "require": policy.requires or None,
        "own_code": policy.own_code,
        "undeclared_parent": policy.undeclared_parent,
        "relations": list(policy.relations),
        "accepted": sum(row.waiver is not None for row in report.rows),
    }
    return Finding("Policy", values=values)


def besides(row: Row) -> str:
    """Return the same, and what accepted it until a day that is past, as the end of a sentence; empty where nothing."""
    waived = (f"accepted until {row.waiver.expires}: {row.waiver.reason}",) if row.waiver else ()
    expired = (f"accepted only until {row.expired.expires}, and that day has passed",) if row.expired else ()
    return "".join(f"; {part}" for part in (*waived, *expired, *row.unmet))
