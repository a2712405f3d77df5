"""Engines: what runs one task for each model, here or on several machines, and how often the Hub is asked."""

from __future__ import annotations

import contextlib
import functools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from hf_lineage.errors import OptionError, installation


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


Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Task = Callable[[Job], Outcome]


class Work(NamedTuple):
    """The amount of work at the same time, and how many requests a minute all workers may send to the Hub."""

    workers: int = 1
    rate: float | None = None

    @property
    def own_rate(self) -> float | None:
        """Requests to the Hub a minute at most, of one worker; None for as many as the Hub allows."""
        return self.rate and self.rate / self.workers


def local(task: Task[Job, Outcome], jobs: Iterable[Job], work: Work, lost: Task[Job, Outcome]) -> Iterator[Outcome]:
    """Yield every outcome as it is done, by processes of this machine; `lost` makes that of a worker that ended."""
    if work.workers == 1:
        yield from (_run_limited(work.own_rate, task, job) for job in jobs)
        return
    idle, processes = list[Connection](), list[BaseProcess]()

    def submit(job: Job) -> Connection:
        if not idle:
            pipe, process = _start_process(work.own_rate)
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
    """Return a process that runs tasks until the one that starts it ends, and the pipe to it.

    It ignores the SIGINT that a terminal sends to all: it is ended by that process, without a traceback.
    """
    context = multiprocessing.get_context("spawn")
    pipe, own = context.Pipe()
    process = context.Process(target=_serve, args=(own, rate), daemon=True)
    first = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if first else None
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


def ray(task: Task[Job, Outcome], jobs: Iterable[Job], work: Work, lost: Task[Job, Outcome]) -> Iterator[Outcome]:
    """Yield the outcome of every job as it is done, by Ray: on the cluster of RAY_ADDRESS, else on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray as library
    except ImportError:
        raise OptionError(f"--engine ray needs Ray; {installation('ray')}") from None
    cluster: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": work.workers}
    library.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **cluster)
    remote: Any = library.remote(num_cpus=1, max_retries=0)(_run_limited)
    submit, errors = functools.partial(remote.remote, work.own_rate, task), (library.exceptions.RayError,)
    receive: Callable[[Any], Outcome] = library.get
    try:
        yield from _as_done(jobs, work, submit, lambda handles: library.wait(handles)[0], receive, errors, lost)
    finally:
        library.shutdown()


ENGINES: Mapping[str, Callable[..., Iterator[Any]]] = {"local": local, "ray": ray}


def _as_done(
    jobs: Iterable[Job],
    work: Work,
    submit: Callable[[Job], Any],
    wait: Callable[[list[Any]], Iterable[Any]],
    receive: Callable[[Any], Outcome],
    errors: tuple[type[Exception], ...],
    lost: Task[Job, Outcome],
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


def _run_limited(rate: float | None, task: Task[Job, Outcome], job: Job) -> Outcome:
    limit(rate)
    return task(job)
