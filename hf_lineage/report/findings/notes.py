"""Notes beside the verdict of a claim, which it does not depend on: what a policy makes of it, and licences.

A policy accepts a claim, or finds what it lacks. Licences are those that the cards of a model and of the base that its
weights bear out state, side by side. They are what the authors wrote, and a note: it says nothing about what is
allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.claims import Ancestor, Licence
from hf_lineage.errors import printable
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording


def describe_waiver(_report: Report, row: Row) -> Finding | None:
    """Return what accepts the verdict on a claim; None where nothing does."""
    if row.waiver is None:
        return None
    accepted = f"{row.verdict.words} is accepted until {row.waiver.expires}: {row.waiver.reason}"
    values = {"reason": row.waiver.reason, "expires": row.waiver.expires.isoformat()}
    return Finding("Accepted", wording.about(row), (accepted,), values=values)


def describe_unmet(_report: Report, row: Row) -> Finding | None:
    """Return what the policy requires and a claim lacks; None if it lacks nothing."""
    return Finding("Policy not met", wording.about(row), row.unmet, values=list(row.unmet)) if row.unmet else None


def describe_policy(report: Report) -> Finding | None:
    """Return the policy for machines, with what it makes of the check; None without one."""
    policy = report.policy
    if policy is None:
        return None
    values = {
        "source": policy.source or None,
        "fail_on": policy.fail_on,
        "evidence": policy.evidence,
        "require": policy.requires or None,
        "own_code": policy.own_code,
        "undeclared_parent": policy.undeclared_parent,
        "licences": list(policy.licences),
        "licence_files": policy.licence_files,
        "relations": list(policy.relations),
        "accepted": sum(row.waiver is not None for row in report.rows),
        "exit_code": int(report.status),
    }
    return Finding("Policy", values=values)


def besides(row: Row) -> str:
    """Return the same, and what accepted it until a day that is past, as the end of a sentence; empty where nothing."""
    waived = (f"accepted until {row.waiver.expires}: {row.waiver.reason}",) if row.waiver else ()
    expired = (f"accepted only until {row.expired.expires}, and that day has passed",) if row.expired else ()
    return "".join(f"; {part}" for part in (*waived, *expired, *row.unmet))


TITLE = "Licence"
DIFFER = "the two differ, read both"
UNDECLARED = "no file of the model declares this base"
ADVICE = ". This is a note, not legal advice"
ASKED = {"LICENSE": "a copy of its text (LICENSE)", "NOTICE": "a file NOTICE"}
UNSTATED = "none stated"
"""The text for a card that states no licence; it is not a licence called none."""


def describe_base(report: Report, row: Row) -> Finding | None:
    """Return what the two cards state; in words once for each verified base, however many parts of it are compared."""
    sentences = tuple(_sentences(report, row))
    if row.licence is None and not sentences:
        return None
    return Finding(TITLE, printable(row.claim.base, 200), sentences, values=licence_values(row.licence))


def describe_model(report: Report) -> Finding | None:
    """Return what the card of the model states, for machines; None where it states nothing."""
    return Finding(TITLE, values=licence_values(report.licence)) if report.licence else None


def _sentences(report: Report, row: Row) -> Iterator[str]:
    verified = (one for one in report.rows if one.verdict.verified and one.claim.base == row.claim.base)
    if next(verified, None) is not row or (report.licence is None and row.licence is None):
        return
    model, base = str(report.licence or UNSTATED), str(row.licence or UNSTATED)
    differ = (DIFFER,) if report.licence and row.licence and report.licence.differs(row.licence) else ()
    undeclared = (UNDECLARED,) if row.ancestors and not row.ancestors[0].declared_by else ()
    more = (*differ, *(describe_files(row.ancestors[0]) if row.ancestors else ()), *undeclared)
    stated = f"the cards state it: {model} for the model, {base} for the base"
    words = "; ".join((f"licence as {f'both cards state it: {model}' if model == base else stated}", *more))
    yield words + (ADVICE if more else "")


def describe_files(ancestor: Ancestor) -> tuple[str, ...]:
    """Return in words which files the licence of a base asks for, or the base has, and the model does not have."""
    asked = ancestor.licence.asks if ancestor.licence else frozenset()
    return tuple(
        f"it asks for {ASKED[kind]}, which the model does not have"
        if kind in asked
        else f"that base has a file {kind}, and the model has none"
        for kind in ancestor.missing
    )


def licence_values(licence: Licence | None) -> dict[str, Any] | None:
    """Return a licence under the keys of a card."""
    if licence is None:
        return None
    return {"license": licence.identifier or None, "name": licence.name or None, "link": licence.link or None}
