"""Threads: how the steps on one layer are distributed over the cores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")


class Share(Protocol):
    """A way to run a task in every worker, all of which draw from the same items until there are none left."""

    def __call__(self, task: Callable[[Iterator[T]], None], items: Iterable[T], /) -> None:
        """Return when every item is done; raise what a task raises."""


def alone(task: Callable[[Iterator[T]], None], items: Iterable[T]) -> None:
    """Run a task in this thread only: the Share for work that is too small to distribute."""
    task(iter(items))


@functools.cache
def linear_algebra() -> ThreadpoolController:
    """Return what sets the number of threads of NumPy's linear algebra."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def workers() -> Iterator[Share]:
    """Yield a way to distribute work over as many threads as the linear algebra uses; within each, it uses only one.

    Most steps on a tile are too small to be split: waiting for other threads would cost more than it saves. A number
    outside the range of float32 is not an error here: each layer is checked for such numbers when it is done.
    """
    count = max((library["num_threads"] for library in linear_algebra().info()), default=1)
    with (
        linear_algebra().limit(limits=1),
        np.errstate(all="ignore"),
        ThreadPoolExecutor(count, initializer=np.seterr, initargs=("ignore",)) as pool,
    ):

        def share(task: Callable[[Iterator[T]], None], items: Iterable[T]) -> None:
            common = iter(list(items))
            for done in [pool.submit(task, common) for _ in range(count)]:
                done.result()

        yield share
