"""Watching: models that changed on the Hub since a ledger's last entries are checked, and appended one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hf_lineage.checking import Options, check_source, without_model
from hf_lineage.checking.source import is_here, locate
from hf_lineage.claims import read_claims
from hf_lineage.errors import CheckpointError, NetworkError, NoModelError, OptionError, RepositoryError, printable
from hf_lineage.evidence import ExitCode
from hf_lineage.evidence.nulls import published_null
from hf_lineage.files import is_folder
from hf_lineage.hub import Listing, Release, hub_name, listing, resolve
from hf_lineage.policy import NO_POLICY, Policy
from hf_lineage.report.record import record
from hf_lineage.watch import ledger
from hf_lineage.watch.ledger import Claim, Entry, Ledger
from hf_lineage.watch.rendering import Plan, Run, outcome

FAILURES = (CheckpointError, NetworkError, RepositoryError, MemoryError)
"""Errors of one model, which do not stop the check of the others; a wrong option does."""
Progress = Callable[[Sequence[Release]], Iterable[Release]]


@dataclass(frozen=True)
class Scope:
    """The models that are watched."""

    names: tuple[str, ...]
    """Authors, or models as org/model."""
    since: datetime | None = None
    """Changes since this moment are checked, even if the ledger goes further."""
    limit: int = 100
    """The most models in one run."""
    again: bool = False
    """Whether models that could not be checked before are checked again."""

    def __post_init__(self) -> None:
        for name in self.names:
            if hub_name(name) != name:
                raise OptionError(f"{printable(name, 200)} is not an author or a model on the Hub; check the name")


def plan(scope: Scope, book: Ledger) -> Plan:
    """Return which models changed since the ledger's last entry for each name.

    The oldest changes come first: if a run is stopped, nothing older than the ledger's last entry is missed. Raise
    NetworkError if the Hub cannot be reached.
    """
    releases: dict[str, Release] = {}
    problems: list[str] = []
    for name in sorted(scope.names, key=lambda name: "/" in name):
        try:
            listed = _listed(name, scope, book)
        except RepositoryError as error:
            problems.append(str(error))
        else:
            problems += listed.problems
            releases = {release.model: release for release in listed.releases} | releases
    failed = {release.model: release for release in _failed(scope, book)}
    wanted = [
        release
        for release in (failed | releases).values()
        if (release.model, release.commit) not in book.known
        or (release.model in failed and failed[release.model].commit == release.commit)
    ]
    wanted.sort(key=lambda release: (release.changed, release.model))
    known, left = len(failed | releases) - len(wanted), max(0, len(wanted) - scope.limit)
    return Plan(tuple(wanted[: scope.limit]), known, left, tuple(problems))


def watch(scope: Scope, file: Path, options: Options, progress: Progress = iter, policy: Policy = NO_POLICY) -> Run:
    """Check the models that changed and append them to the ledger; return the new entries and the last of each model.

    If the network fails for good, the run ends with the entries made until then. Raise LineageError if nothing can be
    checked at all, if the ledger cannot be read or written, or for a wrong option.
    """
    _refuse(options, policy)
    with ledger.writing(file) as book:
        todo = plan(scope, book)
        entries: list[Entry] = []
        problems = list(todo.problems)
        try:
            for release in progress(todo.releases):
                entries.append(_entry(release, options))
                book.append(entries[-1])
        except NetworkError as error:
            problems.append(str(error))
        left = todo.left + len(todo.releases) - len(entries)
        latest = tuple(book.latest.values())
        return Run(tuple(entries), todo.known, left, tuple(problems), latest, policy, datetime.now(UTC).date())


def _listed(name: str, scope: Scope, book: Ledger) -> Listing:
    if "/" in name:
        return Listing((listing.current(name),), ())
    moments = [moment for moment in (book.marks.get(name), scope.since) if moment is not None]
    return listing.since(name, min(moments, default=None))


def _failed(scope: Scope, book: Ledger) -> Iterator[Release]:
    """The models that could not be checked, at that commit, if they are to be checked again."""
    for entry in book.latest.values() if scope.again else ():
        if entry.watched in scope.names and outcome(entry) is ExitCode.ERROR:
            yield Release(entry.watched, entry.model, entry.commit, entry.changed)


def _entry(release: Release, options: Options) -> Entry:
    """The entry of a model; raise NetworkError if the Hub does not answer for any model."""
    claims: tuple[Claim, ...] = ()
    problem = ""
    try:
        claims = _judged(release, options)
    except FAILURES as error:
        if isinstance(error, NetworkError):
            _answers(release)
        problem = str(error) or "not enough memory; try --set max-memory=8GiB"
    return Entry(
        model=release.model,
        commit=release.commit,
        watched=release.watched,
        changed=release.changed,
        checked_at=datetime.now(UTC).replace(microsecond=0),
        error=problem,
        claims=claims,
    )


def _judged(release: Release, options: Options) -> tuple[Claim, ...]:
    """The judged claims of a model; if nothing is declared no weights are opened."""
    repo = replace(resolve(f"{release.model}@{release.commit}", folders=False), name=release.model)
    if not read_claims(repo).claims:
        return ()
    try:
        report = check_source(release.model, repo, (), options)
    except NoModelError as error:
        report = without_model(release.model, repo, options, str(error))
    on_disk = {null: f"./{Path(null).resolve().name}" for null in options.nulls if is_here(null)}
    recorded = record.build(report, release.commit, datetime.now(UTC).date(), on_disk)
    return tuple(
        msgspec.structs.replace(msgspec.convert(claim, Claim, from_attributes=True), part=row.part)
        for claim, row in zip(recorded.claims, report.rows, strict=True)
    )


def _answers(release: Release) -> None:
    """Raise NetworkError if the Hub does not answer at all, so that the error is not one of the model."""
    with contextlib.suppress(RepositoryError):
        listing.current(release.model)


def _refuse(options: Options, policy: Policy) -> None:
    """Raise LineageError for an option that is wrong for every model."""
    if unnamed := [waiver for waiver in policy.accepted if not waiver.model]:
        raise OptionError(f"{policy.source} accepts {unnamed[0]}, but does not say of which model; add model: org/name")
    if options.local_hub is not None and not is_folder(str(options.local_hub)):
        raise RepositoryError(f"{options.local_hub} is not a folder, so it cannot be a local hub; check --local-hub")
    for null in options.nulls:
        if published_null(null) is None:
            locate(null, options.local_hub)
