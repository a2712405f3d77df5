"""Building: models of a list or a tree into the index, many at a time, here or by Ray; and out of it, all or none."""

import contextlib
import functools
import logging
import multiprocessing
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import LineageError, OptionError, format_error, installation, printable
from hf_lineage.files.atomic import remove_file
from hf_lineage.files.paths import is_folder, spell_path
from hf_lineage.hub.commits import list_models
from hf_lineage.index import store
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


@functools.cache
def limit(a_minute: float | None) -> None:
    """Let this process send the Hub at most so many requests a minute, at equal intervals, or as many as it allows."""
    if not a_minute:
        return
    from huggingface_hub import constants, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    interval, free, lock = 60 / a_minute, 0.0, threading.Lock()

    def wait(request: Any) -> None:
        nonlocal free
        if urlsplit(str(request.url))[:2] != urlsplit(constants.ENDPOINT)[:2]:  # to another place than the Hub
            return
        with lock:
            now = time.monotonic()
            delay = max(0.0, free - now)
            free = max(now, free) + interval
        if delay:
            time.sleep(delay)

    def make_client() -> Any:
        client = default_client_factory()
        client.event_hooks["request"].append(wait)
        return client

    set_client_factory(make_client)


Task = Callable[[Job], Outcome]


class Work(NamedTuple):
    """The amount of work at the same time, and how many requests a minute each worker may send to the Hub."""

    workers: int = 1
    rate: float | None = None  # of one worker; None for as many as the Hub allows


def local(task: Task, jobs: Iterable[Job], work: Work, lost: Task) -> Iterator[Outcome]:
    """Yield every outcome as it is done, by processes of this machine; `lost` makes that of a worker that ended."""
    if work.workers == 1:
        yield from (_run_limited(work.rate, task, job) for job in jobs)
        return
    idle, processes = list[Connection](), list[BaseProcess]()

    def submit(job: Job) -> Connection:
        if not idle:
            pipe, process = _start_process(work.rate)
            idle.append(pipe)
            processes.append(process)
        pipe = idle.pop()
        with contextlib.suppress(OSError):  # it has ended, which `receive` finds out
            pipe.send((task, job))
        return pipe

    def receive(pipe: Connection) -> Outcome:
        outcome: Outcome = pipe.recv()
        idle.append(pipe)
        return outcome

    try:
        yield from _as_done(jobs, work, submit, connection.wait, receive, (EOFError, OSError), lost)
    finally:
        for process in processes:
            process.kill()


def _start_process(rate: float | None) -> tuple[Connection, BaseProcess]:
    """Return a process that runs tasks until the one that starts it ends, and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    pipe, own = context.Pipe()
    process = context.Process(target=_serve, args=(own, rate), daemon=True)
    first = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if first else None  # a terminal sends one to all processes
    try:
        process.start()
    finally:
        if first:
            signal.signal(signal.SIGINT, handler)
    own.close()
    return pipe, process


def _serve(pipe: Connection, rate: float | None) -> None:
    from tqdm import tqdm

    def end_with_parent() -> None:
        if parent := multiprocessing.parent_process():
            connection.wait([parent.sentinel])
        os._exit(1)

    tqdm.set_lock(threading.RLock())  # its own is shared by processes, and left behind by one that is ended
    threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        task, job = pipe.recv()
        pipe.send(_run_limited(rate, task, job))


def ray(task: Task, jobs: Iterable[Job], work: Work, lost: Task) -> Iterator[Outcome]:
    """Yield the outcome of every job as it is done, by Ray: on the cluster of RAY_ADDRESS, else on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray as library
    except ImportError:
        raise OptionError(f"--engine ray needs Ray; {installation('ray')}") from None
    cluster: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": work.workers}
    library.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **cluster)
    remote: Any = library.remote(num_cpus=1, max_retries=0)(_run_limited)
    submit, errors = functools.partial(remote.remote, work.rate, task), (library.exceptions.RayError,)
    receive: Callable[[Any], Outcome] = library.get
    try:
        yield from _as_done(jobs, work, submit, lambda handles: library.wait(handles)[0], receive, errors, lost)
    finally:
        library.shutdown()


ENGINES: Mapping[str, Engine] = {"local": local, "ray": ray}


def _as_done(
    jobs: Iterable[Job],
    work: Work,
    submit: Callable[[Job], Any],
    wait: Callable[[list[Any]], Iterable[Any]],
    receive: Callable[[Any], Outcome],
    errors: tuple[type[Exception], ...],
    lost: Task,
) -> Iterator[Outcome]:
    """Yield outcomes while no more jobs than this are in work: no more are lost when all is stopped."""
    waiting, left = dict[Any, Job](), iter(jobs)
    while True:
        while len(waiting) < work.workers and (job := next(left, None)) is not None:
            waiting[submit(job)] = job
        if not waiting:
            return
        for handle in wait(list(waiting)):
            job = waiting.pop(handle)
            try:
                outcome = receive(handle)
            except errors:
                outcome = lost(job)
            yield outcome


def _run_limited(rate: float | None, task: Task, job: Job) -> Outcome:
    limit(rate)
    return task(job)


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
    """Take models out of an index, at every commit or at the one that is named, all of them or none (OptionError)."""
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
    for shard, own in shards:  # keys go before signatures, so that no key is without one however this ends
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
