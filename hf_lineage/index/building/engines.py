"""Engines: what runs one task for each model, on this machine or on several; the task is the same for all of them."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from hf_lineage.errors import OptionError, installation
from hf_lineage.hub import pace

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Lost = Callable[[Job], Outcome]
"""The outcome of a task whose worker ended, so that it has none of its own."""


@dataclass(frozen=True)
class Work:
    """How much is done at the same time, and how fast."""

    workers: int = 1
    rate: float | None = None
    """Requests to the Hub a minute at most, of all workers together; None for as many as the Hub allows."""

    @property
    def own_rate(self) -> float | None:
        """Those of one worker."""
        return self.rate and self.rate / self.workers


def local(
    task: Callable[[Job], Outcome], jobs: Iterable[Job], work: Work, lost: Lost[Job, Outcome]
) -> Iterator[Outcome]:
    """Yield the outcome of every job as it is done, by processes of this machine; by this one if one is enough."""
    if work.workers == 1:
        _prepare(work.own_rate)
        yield from map(task, jobs)
        return
    context = multiprocessing.get_context("spawn")
    going, held = context.Pipe(duplex=False)
    with _uninterrupted():
        pool = _pool(work, going)

    def submit(job: Job) -> Future[Outcome]:
        nonlocal pool
        with _uninterrupted():
            try:
                return pool.submit(_at_work, task, job)
            except BrokenProcessPool:
                pool = _pool(work, going)
                return pool.submit(_at_work, task, job)

    def finished(waiting: Mapping[Any, Job]) -> Iterator[tuple[Any, Outcome]]:
        for done in wait(waiting, return_when=FIRST_COMPLETED).done:
            broken = isinstance(done.exception(), BrokenProcessPool)
            yield done, lost(waiting[done]) if broken else done.result()

    try:
        yield from _as_done(jobs, work.workers, submit, finished)
    finally:
        held.close()  # ends the workers that are at work; those that are idle end with the pool
        pool.shutdown(cancel_futures=True)
        going.close()


def _pool(work: Work, going: Connection) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(work.workers, context, _prepare_child, (work.own_rate, going))


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT back: from this process until the end, and for good from those that are started meanwhile.

    A terminal sends it to all of them at once. It is for this process to end the others, which would print tracebacks.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    resource_tracker.ensure_running()  # when it starts a process of its own, it lets SIGINT through
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    _block(signal.SIGINT, True)
    try:
        yield
    finally:
        _block(signal.SIGINT, False)
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, None)


def _block(number: int, whether: bool) -> None:
    """Have this thread, and the processes that it starts, receive a signal or not, where the system can do that."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if whether else signal.SIG_UNBLOCK, {number})


def ray(task: Callable[[Job], Outcome], jobs: Iterable[Job], work: Work, lost: Lost[Job, Outcome]) -> Iterator[Outcome]:
    """Yield the outcome of every job as it is done, by Ray: on the cluster of RAY_ADDRESS, else on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray as library
    except ImportError:
        raise OptionError(f"--engine ray needs Ray; {installation('ray')}") from None
    cluster: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": work.workers}
    library.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **cluster)
    remote: Any = library.remote(num_cpus=1, max_retries=0)(_prepared)

    def finished(waiting: Mapping[Any, Job]) -> Iterator[tuple[Any, Outcome]]:
        for done in library.wait(list(waiting))[0]:
            try:
                outcome = library.get(done)
            except library.exceptions.RayError:
                outcome = lost(waiting[done])
            yield done, outcome

    try:
        yield from _as_done(jobs, work.workers, lambda job: remote.remote(work.own_rate, task, job), finished)
    finally:
        library.shutdown()


ENGINES: Mapping[str, Callable[..., Iterator[Any]]] = {"local": local, "ray": ray}
"""By its name, what runs a task for each of several jobs."""


def _as_done(
    jobs: Iterable[Job],
    most: int,
    submit: Callable[[Job], Any],
    finished: Callable[[Mapping[Any, Job]], Iterator[tuple[Any, Outcome]]],
) -> Iterator[Outcome]:
    """Yield outcomes while no more jobs than this are in work: no more are lost when all is stopped."""
    waiting: dict[Any, Job] = {}
    for job in jobs:
        waiting[submit(job)] = job
        if len(waiting) >= most:
            yield from _taken(waiting, finished)
    while waiting:
        yield from _taken(waiting, finished)


def _taken(
    waiting: dict[Any, Job], finished: Callable[[Mapping[Any, Job]], Iterator[tuple[Any, Outcome]]]
) -> Iterator[Outcome]:
    for handle, outcome in list(finished(waiting)):
        del waiting[handle]
        yield outcome


def _prepare(rate: float | None) -> None:
    if rate:
        pace.limit(rate)


def _prepare_child(rate: float | None, going: Connection) -> None:
    """Prepare a process that ends with the one that started it, however that ends, or when that closes the pipe."""
    from tqdm import tqdm

    _ANSWERING.acquire()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is shared by processes, and left behind by one that is ended
    _prepare(rate)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel, going), daemon=True).start()


def _end_with(sentinel: int, going: Connection) -> None:
    if sentinel in connection.wait([sentinel, going]):
        os._exit(1)
    with _ANSWERING:
        os._exit(1)


_ANSWERING = threading.Lock()
"""Held by a process that is not at work: it may be sending an outcome, for the rest of which the other would wait."""


def _at_work(task: Callable[[Job], Outcome], job: Job) -> Outcome:
    """The outcome of a job in a process that may be ended while the task runs, and only then."""
    _ANSWERING.release()
    try:
        return task(job)
    finally:
        _ANSWERING.acquire()


_PACED: list[float] = []


def _prepared(rate: float | None, task: Callable[[Job], Outcome], job: Job) -> Outcome:
    """The outcome of a job in a worker that is prepared when its first job comes."""
    if rate and not _PACED:
        _PACED.append(rate)
        _prepare(rate)
    return task(job)
