"""Watching: what changed on the Hub since a ledger's last entries, checked and appended, model by model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hf_lineage import __version__, calibrate, ledger, releases
from hf_lineage.claims import read_claims
from hf_lineage.errors import CheckpointError, NetworkError, OptionError, RepositoryError, printable
from hf_lineage.files import is_folder
from hf_lineage.ledger import Claim, Entry, Ledger
from hf_lineage.naming import is_path, locate_base
from hf_lineage.options import Options
from hf_lineage.pipeline import check_source
from hf_lineage.releases import Listing, Release
from hf_lineage.repo import hub_name, resolve
from hf_lineage.report import record
from hf_lineage.report.watched import Plan, Run, outcome
from hf_lineage.verdict import ExitCode

FAILURES = (CheckpointError, NetworkError, RepositoryError, MemoryError)
"""What may be wrong with one model, and does not stop the others; a wrong option does."""
Progress = Callable[[Sequence[Release]], Iterable[Release]]


@dataclass(frozen=True)
class Scope:
    """Which models are looked at."""

    names: tuple[str, ...]
    """Authors, or models as org/model."""
    since: datetime | None = None
    """A moment to look back to at least."""
    limit: int = 100
    """Models in a run."""
    again: bool = False
    """Whether those are checked once more that could not be."""

    def __post_init__(self) -> None:
        for name in self.names:
            if hub_name(name) != name:
                raise OptionError(f"{printable(name, 200)} is neither an author nor a model of the Hub; check the name")


def plan(scope: Scope, book: Ledger) -> Plan:
    """Return which models changed since the ledger's last entry for each name.

    The oldest come first: whatever stops a run, nothing older than the ledger's last entry is left behind. Raise
    NetworkError if the Hub cannot be reached.
    """
    found: dict[str, Release] = {}
    problems: list[str] = []
    for name in sorted(scope.names, key=lambda name: "/" in name):
        try:
            listed = _listed(name, scope, book)
        except RepositoryError as error:
            problems.append(str(error))
        else:
            problems += listed.problems
            found = {each.model: each for each in listed.releases} | found
    failed = {each.model: each for each in _failed(scope, book)}
    wanted = [
        each
        for each in (failed | found).values()
        if (each.model, each.commit) not in book.known
        or (each.model in failed and failed[each.model].commit == each.commit)
    ]
    wanted.sort(key=lambda each: (each.changed, each.model))
    known, left = len(failed | found) - len(wanted), max(0, len(wanted) - scope.limit)
    return Plan(tuple(wanted[: scope.limit]), known, left, tuple(problems))


def watch(scope: Scope, file: Path, options: Options, progress: Progress = iter) -> Run:
    """Check what changed and append it to the ledger; return what is new in it, and what it says now.

    A network that fails for good ends the run with what was done until then. Raise LineageError if nothing can be
    done at all, if the ledger cannot be read or written, or for an option that does not fit.
    """
    _refuse(options)
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
        return Run(tuple(entries), todo.known, left, tuple(problems), tuple(book.latest.values()))


def _listed(name: str, scope: Scope, book: Ledger) -> Listing:
    if "/" in name:
        return Listing((releases.current(name),), ())
    moments = [moment for moment in (book.marks.get(name), scope.since) if moment is not None]
    return releases.since(name, min(moments, default=None))


def _failed(scope: Scope, book: Ledger) -> Iterator[Release]:
    """The models that are to be checked once more at the commit at which they could not be."""
    for entry in book.latest.values() if scope.again else ():
        if entry.watched in scope.names and outcome(entry) is ExitCode.ERROR:
            yield Release(entry.watched, entry.model, entry.commit, entry.changed)


def _entry(release: Release, options: Options) -> Entry:
    """What is to be said of a model; raise NetworkError if nothing can be said of any."""
    claims: tuple[Claim, ...] = ()
    problem = ""
    try:
        claims = _judged(release, options)
    except FAILURES as error:
        if isinstance(error, NetworkError):
            _answers(release)
        problem = str(error) or "not enough memory; try --max-memory"
    return Entry(
        model=release.model,
        commit=release.commit,
        watched=release.watched,
        changed=release.changed,
        checked_at=datetime.now(UTC).replace(microsecond=0),
        version=__version__,
        error=problem,
        claims=claims,
    )


def _judged(release: Release, options: Options) -> tuple[Claim, ...]:
    """The claims of a model and what became of them; where nothing is declared no weights are opened."""
    repo = replace(resolve(f"{release.model}@{release.commit}", folders=False), name=release.model)
    if not read_claims(repo).claims:
        return ()
    report = check_source(release.model, repo, (), options)
    on_disk = {null: f"./{Path(null).resolve().name}" for null in options.nulls if is_path(null)}
    found = record.build(report, release.commit, datetime.now(UTC).date(), on_disk)
    return tuple(msgspec.convert(claim, Claim, from_attributes=True) for claim in found.claims)


def _answers(release: Release) -> None:
    """Raise NetworkError if the Hub does not answer at all, so that the model is not what is wrong."""
    with contextlib.suppress(RepositoryError):
        releases.current(release.model)


def _refuse(options: Options) -> None:
    """Raise LineageError for what would be wrong with every model."""
    if options.local_hub is not None and not is_folder(str(options.local_hub)):
        raise RepositoryError(f"{options.local_hub} is no folder, so it is no local hub; check --local-hub")
    for null in options.nulls:
        if calibrate.published_null(null) is None:
            locate_base(null, options.local_hub)
