"""Building: models -> the index, one after the other or many at a time; what is there already is not read again.

Models that are named are taken out of an index, all of them or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hf_lineage.checking import Options
from hf_lineage.checking.source import is_path, located, only, open_model, with_parts
from hf_lineage.errors import LineageError, NetworkError, OptionError, printable, told
from hf_lineage.files import is_folder, remove_file, typed
from hf_lineage.hub import listing
from hf_lineage.index import storage
from hf_lineage.index.building.engines import Work
from hf_lineage.index.building.journal import Journal
from hf_lineage.index.storage import shards
from hf_lineage.signature import Signature

LARGEST_LIST = 2**28
"""Characters of a list of models."""
LOST = "its worker ended while it was read, perhaps because memory ran out"


@dataclass(frozen=True)
class Added:
    """What became of one model."""

    model: str
    entries: tuple[storage.Entry, ...] = ()
    """Empty where it was in the index already, or could not be read."""
    problem: str = ""
    """Why it could not be read, in one sentence."""


@dataclass(frozen=True)
class Job:
    """One model that is to be read."""

    model: str
    options: Options
    known: frozenset[str] = frozenset()
    """The commits at which it is in the index."""


@dataclass(frozen=True)
class Outcome:
    """What was read of a model."""

    model: str
    records: tuple[storage.Record, ...] = ()
    """Empty where it is in the index already, or could not be read."""
    problem: str = ""
    final: bool = False
    """Whether it would fail again."""


Progress = Callable[[Sequence[str]], Iterable[str]]
Engine = Callable[..., Iterator[Outcome]]


def every(models: Sequence[str], authors: Sequence[str]) -> list[str]:
    """Return these models, and then all that these authors have on the Hub; raise as `listing.published` does."""
    return [*models, *(model for author in authors for model in listing.published(author))]


def listed(text: str) -> list[str]:
    """Return the models of a list, one a line, each once; empty lines and remarks (#) are left out."""
    if len(text) > LARGEST_LIST:
        raise OptionError(f"the list of models is longer than {LARGEST_LIST >> 20} MiB; split it")
    lines = (line.strip() for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def add(
    models: Sequence[str], catalogue: storage.Catalogue, options: Options, progress: Progress = iter
) -> Iterator[Added]:
    """Put models into an index; an error of one is told, and the others are read all the same."""
    known = catalogue.own_commits(_labels(options))
    for model in progress(models):
        try:
            records = _records(model, options, lambda name, commit: commit in known.get(name, ()))
        except LineageError as error:
            yield Added(model, problem=str(error))
        else:
            yield Added(model, tuple(map(catalogue.put, records)))


def build(
    models: Sequence[str],
    catalogue: storage.Catalogue,
    options: Options,
    engine: Engine,
    work: Work,
    retry: bool = False,
) -> Iterator[Added]:
    """Put models into an index by an engine; each is kept as soon as it is read, and failures with their reasons.

    Those that are in the index are not read again, nor, unless they are to be tried again, those that failed for good.
    The files of an index that was built do not depend on the order in which models were done.
    """
    journal, known = Journal(catalogue.folder), catalogue.commits(_labels(options))
    troubles = {} if retry else journal.read()
    todo = []
    for model in models:
        commits = known.get(model.partition("@")[0], frozenset())
        if model.partition("@")[2] in commits:
            yield Added(model)
        elif model in troubles and (problem := troubles[model].given_up):
            yield Added(model, problem=f"{printable(model, 200)}: {problem}")
        else:
            todo.append(Job(model, options, commits))
    for outcome in engine(read, _noted(todo, journal), work, lambda job: Outcome(job.model, problem=LOST)):
        entries = tuple(map(catalogue.put, outcome.records))
        if outcome.problem:
            journal.failed(outcome.model, outcome.problem, outcome.final)
        else:
            journal.done(outcome.model)
        yield Added(outcome.model, entries, outcome.problem)
    catalogue.compact()
    journal.tidy()


def read(job: Job) -> Outcome:
    """Return what an index keeps of a model, or why it cannot be read; this is what an engine runs."""
    try:
        return Outcome(job.model, tuple(_records(job.model, job.options, lambda _, commit: commit in job.known)))
    except Exception as error:  # an error of one model must not end the run of a million
        final = not isinstance(error, NetworkError | MemoryError | OSError)
        return Outcome(job.model, problem=told(error), final=final)


def _records(model: str, options: Options, is_known: Callable[[str, str], bool]) -> list[storage.Record]:
    """What an index keeps of a model; nothing if it is known at this commit."""
    source = located(model, options)
    if isinstance(source, Signature):
        return storage.records_of(source)
    source = only(source)
    if source.commit and is_known(storage.without_revision(source.name, source.commit), source.commit):
        return []
    signatures = [open_model(source, options).signature()]
    for part in with_parts(source)[1:]:
        with contextlib.suppress(LineageError):  # the model itself is known all the same
            signatures.append(open_model(part, options).signature())
    return [record for signature in signatures for record in storage.records_of(signature)]


def _noted(jobs: Sequence[Job], journal: Journal) -> Iterator[Job]:
    for job in jobs:
        journal.begun(job.model)
        yield job


def _labels(options: Options) -> Mapping[str, str]:
    return {path: options.recipe.label(path) for path in options.paths}


SHORTEST = 7
"""Digits of a commit that stand for it."""


def remove(models: Sequence[str], catalogue: storage.Catalogue) -> None:
    """Take models out of an index, at every commit or at the one that is named.

    Raise OptionError, before anything is changed, for one that is not in it, and SignatureError if it cannot be
    written. Rows go before signatures, so that no row is without one however this ends.
    """
    if not is_folder(str(catalogue.folder)):
        raise OptionError(f"{printable(catalogue.folder, 200)} does not exist, so there is no index; check --index")
    held = list(catalogue.by_file())
    entries = storage.Known(tuple(rows for _, groups in held for rows in groups)).entries()
    gone = {entry.identity: entry for model in models for entry in _meant(model, entries, catalogue)}
    for file, groups in held:
        rows = storage.Known(tuple(groups)).table()
        left = rows.filter(np.array([one.hex() not in gone for one in storage.identities(rows)], np.bool_))
        if len(left) == len(rows):
            continue
        if len(left):
            content = shards.content(left)
            catalogue.write_keys(content, hashlib.sha256(content).hexdigest()[:32])
        remove_file(file)
    for entry in gone.values():
        remove_file(catalogue.folder / storage.signature_file(entry))


def _meant(model: str, entries: Sequence[storage.Entry], catalogue: storage.Catalogue) -> Iterator[storage.Entry]:
    """The entries of a model."""
    chosen = [entry for entry in entries if _is_meant(model, entry)]
    if not chosen:
        listing = shlex.join(["hf-lineage", "index", "list", "--index", typed(catalogue.folder)])
        unread = "".join(f"; {note}" for note in catalogue.passed.notes)
        why = f"is not in the index, so nothing was removed; `{listing}` shows what is{unread}"
        raise OptionError(f"{printable(model, 200)} {why}")
    yield from chosen


def _is_meant(model: str, entry: storage.Entry) -> bool:
    """Whether a name means an entry: as it is listed, a folder by any path, and one of the Hub in any case."""
    if model == entry.model or (is_path(model) and not entry.commit and is_path(entry.model)):
        return os.path.normpath(Path.cwd() / model) == os.path.normpath(Path.cwd() / entry.model)
    name, at, commit = model.partition("@")
    whole = len(commit) >= SHORTEST and entry.commit.startswith(commit)
    known = entry.model.casefold()
    parts_of = known.rpartition("/")[0] if "/" in name else ""
    return name.casefold() in (known, parts_of) and (whole if at else True)
