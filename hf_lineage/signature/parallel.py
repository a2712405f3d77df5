"""Threads: how the steps on one layer are distributed over the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

import torch

T = TypeVar("T")


class Share(Protocol):
    """A way to run a task in every worker, all of which draw from the same items until there are none left."""

    def __call__(self, task: Callable[[Iterator[T]], None], items: Iterable[T], /) -> None:
        """Return when every item is done; raise what a task raises."""


@contextmanager
def workers() -> Iterator[Share]:
    """Yield a way to distribute work over as many threads as torch uses; within each, torch uses a single thread.

    Most steps on a tile are too small for torch to split: waiting for its threads would cost more than it saves.
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def share(task: Callable[[Iterator[T]], None], items: Iterable[T]) -> None:
            common = iter(list(items))
            for done in [pool.submit(task, common) for _ in range(count)]:
                done.result()

        try:
            yield share
        finally:
            torch.set_num_threads(count)
