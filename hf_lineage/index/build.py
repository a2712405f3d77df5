"""Building: models of a list or a tree into the index, many at a time; and out of it, all of them or none."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import LineageError, OptionError, format_error, printable
from hf_lineage.files.atomic import remove_file
from hf_lineage.files.paths import is_folder, spell_path
from hf_lineage.hub.commits import list_models
from hf_lineage.index import store
from hf_lineage.index.engines import Work, local
from hf_lineage.index.relatives import Member
from hf_lineage.index.shard import Entry
from hf_lineage.index.store import Catalogue
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import parts_of_model
from hf_lineage.source.contents import only
from hf_lineage.source.locate import is_path, locate_model
from hf_lineage.source.model import open_model
from hf_lineage.source.options import Options

LARGEST_LIST = 2**28  # characters of a list of models
LOST = "its worker ended while it was read, perhaps because memory ran out"


class Job(NamedTuple):
    """One model that is to be read, and the commits at which it is in the index."""

    model: str
    options: Options
    commits: frozenset[str] = frozenset()


class Outcome(NamedTuple):
    """The records of a model; none where it is in the index already, or could not be read: `problem` says why."""

    model: str
    records: tuple[store.Record, ...] = ()
    problem: str = ""


Progress = Callable[[Sequence[str]], Iterable[str]]
Engine = Callable[..., Iterator[Outcome]]


def every(models: Sequence[str], authors: Sequence[str]) -> list[str]:
    """Return these models, and then all that these authors have on the Hub; raise as `listing.list_models` does."""
    return [*models, *(model for author in authors for model in list_models(author))]


def parse_list(text: str) -> list[str]:
    """Return the models of a list, one a line, each once; empty lines and remarks (#) are left out."""
    if len(text) > LARGEST_LIST:
        raise OptionError(f"the list of models is longer than {LARGEST_LIST >> 20} MiB; split it")
    lines = (line.strip() for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def build(
    models: Sequence[str],
    catalogue: Catalogue,
    options: Options,
    engine: Engine = local,
    work: Work = Work(),  # noqa: B008 - a constant
    compact: bool = False,
) -> Iterator[Outcome]:
    """Put models into an index by an engine, each as soon as it is read, and `compact` it at the end; tell errors."""
    known = catalogue.commits({path: options.recipe.label(path) for path in options.paths})
    todo = []
    for model in models:
        name, _, commit = model.partition("@")
        commits = known.get(name, frozenset())
        if commit in commits:
            yield Outcome(model)
        else:
            todo.append(Job(model, options, commits))
    for outcome in engine(read_model, todo, work, lambda job: Outcome(job.model, problem=f"{job.model}: {LOST}")):
        for record in outcome.records:
            catalogue.put(record)
        yield outcome
    if compact:
        catalogue.compact()


def read_model(job: Job) -> Outcome:
    """Return what an index keeps of a model, or why it cannot be read; this is what an engine runs."""
    signatures = []
    try:
        source = locate_model(job.model, job.options)
        if isinstance(source, Signature):
            signatures.append(source)
        elif (source := only(source)).commit not in job.commits:
            signatures.append(open_model(source, job.options).signature())
            for part in parts_of_model(source):
                with contextlib.suppress(LineageError):  # the model itself is known all the same
                    signatures.append(open_model(part, job.options).signature())
        return Outcome(job.model, tuple(record for one in signatures for record in store.records_of(one)))
    except Exception as error:  # an error of one model must not end the run of a million
        return Outcome(job.model, problem=format_error(error))


def remove(models: Sequence[str], catalogue: Catalogue) -> None:
    """Take models out of an index, at every commit or at the one that is named, all of them or none (OptionError).

    Keys go before signatures, so that no key is without one however this ends.
    """
    if not is_folder(str(catalogue.folder)):
        raise OptionError(f"{printable(catalogue.folder, 200)} does not exist, so there is no index; check --index")
    shards = [(shard, shard.entries()) for shard in catalogue.shards()]
    gone = set[Entry]()
    for model in models:
        meant = [entry for _, own in shards for entry in own if _is_meant(model, entry)]
        if not meant:
            shows = shlex.join(["hf-lineage", "index", "list", "--index", spell_path(catalogue.folder)])
            why = f"is not in the index, so nothing was removed; `{shows}` shows what is"
            raise OptionError(f"{printable(model, 200)} {why}")
        gone.update(meant)
    for shard, own in shards:
        left = [row for row, entry in enumerate(own) if entry not in gone]
        if len(left) < len(own):
            catalogue.replace([shard], [own[row] for row in left], shard.keys()[left])
    for entry in gone:
        remove_file(catalogue.folder / store.signature_file(entry))


def _is_meant(model: str, entry: Entry) -> bool:
    """Return whether a name means an entry: as it is listed, a folder by any path, and one of the Hub in any case."""
    if model == entry.model or (is_path(model) and not entry.commit and is_path(entry.model)):
        return os.path.normpath(Path.cwd() / model) == os.path.normpath(Path.cwd() / entry.model)
    name, at, commit = model.partition("@")
    known = entry.model.casefold()
    parts_of = known.rpartition("/")[0] if "/" in name else ""
    is_named = name.casefold() in (known, parts_of)
    return is_named and (not at or (len(commit) >= 7 and entry.commit.startswith(commit)))


def gather(models: Sequence[str], options: Options, progress: Progress = iter) -> tuple[list[Member], list[str]]:
    """Return some models with their claims, and why others of them cannot be read."""
    members, problems = dict[str, Member](), list[str]()
    for model in progress(models):
        try:
            source = locate_model(model, options)
            if isinstance(source, Signature):
                members.setdefault(source.model, Member(source.model, source))
                continue
            opened, claims = open_model(only(source), options), read_claims(replace(source, subfolder="")).claims
            folder = "" if source.remote else str(source.folder.resolve())
            member = Member(source.name, opened.signature(), claims, folder, opened)
            members.setdefault(folder or source.name, member)
        except LineageError as error:
            problems.append(f"{model}: {error}")
    return list(members.values()), problems


def read_members(catalogue: Catalogue, path: str) -> list[Member]:
    """Return the models of an index along one path whose signatures can be read; nothing says what they declare."""
    entries = {entry.model: entry for entry in sorted(catalogue.entries()) if entry.path == path}
    read = ((name, catalogue.find_signature(entry)) for name, entry in entries.items())
    return [Member(name, signature) for name, signature in read if signature is not None]
