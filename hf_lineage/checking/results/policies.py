"""Policies: which policy counts for a check, and what it makes of the rows.

A policy counts only where whoever runs the check asks for it. The `lineage.yaml` of a model is written by its
publisher, who would gain most by accepting that a claim is contradicted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hf_lineage import policy as policies
from hf_lineage.checking.results.claim_result import NAMED, Row
from hf_lineage.checking.results.report import FILE, OWN, Report
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import ExitCode
from hf_lineage.evidence.derivation import Means
from hf_lineage.files import is_file, open_regular
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

CONTRADICTING = {"quantized": frozenset({Means.DENSE, Means.LOW_RANK, Means.PRUNED})}
"""Relation that a claim declares -> what the weights must not show."""


def asked(policy: str | None, fail_on: str | None, locate: Callable[[], RepoRef | Signature]) -> policies.Policy | None:
    """Return the policy that a user names by its file, or as that of the folder that is checked; None without one.

    What fails is what the user says, else what the policy says. Raise OptionError for a file that is not there, and for
    the policy of a model on the Hub.
    """
    chosen = None
    if policy == OWN:
        chosen = _own(locate())
    elif policy is not None:
        chosen = read(Path(policy))
    return chosen if fail_on is None else replace(chosen or policies.Policy(), fail_on=fail_on)


def read(file: Path) -> policies.Policy:
    """Return the policy in a file; raise OptionError if there is none."""
    if not is_file(str(file)):
        instead = f"name one, or `{OWN}` for {FILE} of the folder"
        raise OptionError(f"--policy {printable(file, 200)} is not a file; {instead}")
    try:
        with open_regular(file) as stream:
            content = stream.read(policies.LARGEST + 1)
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror or error}; check its permissions") from None
    return _parsed(content, str(file))


def _own(source: RepoRef | Signature) -> policies.Policy | None:
    if isinstance(source, Signature) or source.remote is not None:
        raise OptionError(
            f"--policy {OWN} is for a folder of your own; on the Hub the publisher of the model wrote the file, "
            "so name a file of yours"
        )
    content = replace(source, subfolder="").read_bytes(FILE, policies.LARGEST)
    return None if content is None else _parsed(content, FILE)


def _parsed(content: bytes, source: str) -> policies.Policy:
    if len(content) > policies.LARGEST:
        raise OptionError(f"{source} is larger than {policies.LARGEST >> 10} KiB; shorten it")
    try:
        return policies.parse(content.decode("utf-8-sig"), source)
    except UnicodeDecodeError:
        raise OptionError(f"{source} is not UTF-8 text; save it as UTF-8") from None


def under(report: Report, policy: policies.Policy | None, today: datetime.date) -> Report:
    """Return a report under a policy: verdicts stay as they are, and rows say what accepts them or what they lack.

    Without one the report says that the policy beside the model was not asked for.
    """
    if policy is None:
        return report.without_policy()
    on_hub = report.source.remote if report.source else None
    model = on_hub or report.model
    counting = replace(policy, accepted=tuple(one for one in policy.accepted if one.model or not on_hub))
    rows = tuple(_governed(model, row, counting, today) for row in report.rows)
    notes = (*report.notes, *_unnamed(policy, counting), *_idle(model, report.rows, counting, today))
    if policy.relations and not rows:
        wanted = " or ".join(policy.relations)
        notes += (f"{policy.source} asks for the relation {wanted}, but the model declares no base",)
    return replace(report, rows=rows, notes=notes, policy=policy)


def _governed(model: str, row: Row, policy: policies.Policy, today: datetime.date) -> Row:
    finding = model, row.claim.base, row.verdict.code, row.part
    if row.verdict.exit_code is not ExitCode.VERIFIED:
        waiver = policy.waiver(*finding, today)
        if waiver is not None:
            return replace(row, waiver=waiver)
        row = replace(row, expired=next(policy.covering(*finding), None))
    return replace(row, unmet=tuple(_unmet(row, policy)))


def _unmet(row: Row, policy: policies.Policy) -> Iterator[str]:
    """Yield the requirements of a policy that a claim does not meet, by its declarations and by its weights."""
    relation, declared = row.claim.relation, row.claim.sources != NAMED
    yield from policy.lacks(relation, declared, row.own_code)
    if policy.requires == policies.STRICT and not row.verdict.is_strict:
        compared = row.verdict.strict is not None
        why = "its numbers do not show that" if compared else "the numbers were not compared (--strict)"
        yield f"the policy asks for models that are the base's numbers and nothing else, but {why}"
    if policy.requires == policies.EXECUTED and not row.verdict.is_executed:
        ran = row.verdict.executed
        why = "it was not run (--run)" if ran is None else ran.problem or "running did not verify it"
        yield f"the policy asks for claims that are verified by running, but {why}"
    against = CONTRADICTING.get(relation or "", frozenset())
    if declared and relation in policy.relations and row.derivation and against & {*row.derivation.means}:
        yield f"the policy asks for the relation {relation}, but the weights show {row.derivation.words}"


def _unnamed(policy: policies.Policy, counting: policies.Policy) -> Iterator[str]:
    """Yield a sentence for what is accepted of any model, which does not count for one of the Hub.

    One file may be used for many models, and the next of them would only have to declare the same base.
    """
    for waiver in policy.accepted:
        if waiver not in counting.accepted:
            yield f"{policy.source} accepts {waiver}, but does not say of which model on the Hub; add model: org/name"


def _idle(model: str, rows: Sequence[Row], policy: policies.Policy, today: datetime.date) -> Iterator[str]:
    """Yield a sentence for everything accepted that does not count: it has expired, or there is no such finding."""
    for waiver in policy.accepted:
        if not waiver.concerns(model):
            continue
        matched = any(waiver.covers(row.claim.base, row.verdict.code, row.part) for row in rows)
        if waiver.expired(today):
            now = "this check found the same again" if matched else "this check did not find it"
            yield f"{policy.source} accepts {waiver} until {waiver.expires}, and that day has passed; {now}"
        elif not matched:
            yield f"{policy.source} accepts {waiver}, but this check did not find it; remove the entry if it is settled"
