"""Devices: the device on which each layer is computed, within a memory budget, and the threads that share its steps.

GPUs share layers by accelerate's device map.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import psutil

from hf_lineage.errors import OptionError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


T = TypeVar("T")
Device = int | str  # A GPU's number, or "cpu", where NumPy computes; any other name is a device of torch's
CPU: Device = "cpu"
Budgets = Mapping[Device, int]  # device -> the bytes that it may use
DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "C:/Windows/System32/nvcuda.dll")  # of NVIDIA's (WSL) and AMD's
LIMIT = "HF_LINEAGE_MAX_MEMORY"  # variable of the environment with the most memory to use on each device
EXTRA = ("accelerate", "torch")  # the packages that the extra `gpu` installs


class Share(Protocol):
    """A way to run a task in every worker, all of which draw from the same items until there are none left."""

    def __call__(self, task: Callable[[Iterator[T]], None], items: Iterable[T], /) -> None:
        """Return when every item is done; raise what a task raises."""


def alone(task: Callable[[Iterator[T]], None], items: Iterable[T]) -> None:
    """Run a task in this thread only: the Share for work that is too small to distribute."""
    task(iter(items))


@functools.cache
def linear_algebra() -> ThreadpoolController:
    """Return the controller of the number of threads of NumPy's linear algebra."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def workers() -> Iterator[Share]:
    """Yield a way to distribute work over as many threads as the linear algebra uses; within each, it uses only one."""
    # Most steps on a tile are too small to be split: waiting for other threads would cost more than it saves. A number
    # outside the range of float32 is not an error here: each layer is checked for such numbers when it is done.
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


def return_freed_memory() -> None:
    """Give memory back to the system between parts of a comparison that use other arrays (malloc_trim of glibc)."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def budgets(max_memory: str | None = None) -> dict[Device, int]:
    """Return the bytes that each device may use: its free memory, at most `max_memory`, such as `8GiB`."""
    # Without the extra `gpu` everything is computed on the CPU. Raise OptionError for any other text.
    free: dict[Device, int] = {CPU: psutil.virtual_memory().available}
    # accelerate is asked only if there may be a GPU: importing torch takes longer than checking most models.
    if any(map(os.path.exists, DRIVERS)) and all(map(find_spec, EXTRA)):
        from accelerate.utils import get_max_memory

        # Apple's GPU has no float64, in which sums are kept, and shares the CPU's memory anyway.
        free = {CPU if device == "mps" else device: size for device, size in get_max_memory().items()}
    max_memory = max_memory or os.environ.get(LIMIT)
    if not max_memory:
        return free
    parts = re.fullmatch("(.+?)([KMG])(I?)B", max_memory.upper())
    try:
        limit = int(float(parts[1]) * (1024 if parts[3] else 1000) ** (" KMG".index(parts[2]))) if parts else 0
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise OptionError(f"the limit of memory {max_memory} is not a size; write a size such as 8GiB or 500MB")
    return {device: min(limit, size) for device, size in free.items()}


def place(layers: Sequence[int], memory: Budgets) -> list[Device]:
    """Return the device of each layer, given the bytes of its working set and the budget of each device."""
    # The GPUs that can hold the largest layer share the work, in runs of consecutive layers. Without such GPUs the CPU
    # computes all layers. Raise OptionError if no device can hold it.
    largest = max(layers)
    able = {device: size for device, size in memory.items() if size >= largest}
    chosen = {device: size for device, size in able.items() if device not in ("cpu", "disk")} or able
    if not chosen:
        needs = f"one layer needs {largest / 2**20:.0f} MiB and no device has that much"
        raise OptionError(f"{needs}; raise {LIMIT} or free some memory")
    if len(chosen) == 1:
        return [next(iter(chosen))] * len(layers)
    import torch
    from accelerate import infer_auto_device_map

    with torch.device("meta"):
        sizes = (torch.nn.Parameter(torch.empty(size, dtype=torch.uint8), requires_grad=False) for size in layers)
        blocks = torch.nn.ModuleList(torch.nn.ParameterList([size]) for size in sizes)
    # accelerate keeps the room of the largest layer free on the first device, and runs over by less than one layer.
    share = sum(layers) / sum(chosen.values())
    memory = {device: int(size * share) + 2 * max(layers) for device, size in chosen.items()}
    device_map = infer_auto_device_map(blocks, max_memory=memory, no_split_module_classes=["ParameterList"])
    return [device_map[str(number)] for number in range(len(layers))]
