"""Tally: what torch does while something runs, in numbers that are the same on every machine.

Arithmetic on weights is written once for NumPy and torch, so it is counted where it can be: with torch, on the CPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import Memory
from hf_lineage.signature import devices

Result = TypeVar("Result")

GATHERING = frozenset({torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default})
"""Operations that read no more than they return."""
PRODUCTS = frozenset({"mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "mv", "addmv", "addmv_", "dot"})
"""Operations whose last two arguments are multiplied as matrices."""


class Stored(Checkpoint):
    """A checkpoint that knows which memory holds its tensors as they are stored."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.stored, checkpoint.tensors)
        self._read: dict[int, int] = {}
        """Address -> size of what was read."""

    def rows(self, name: str) -> None:
        """Return nothing, so that every tensor is read as a whole and what is read can be told apart."""

    def read(self, name: str, memory: Memory | None = None) -> NDArray[Any]:  # noqa: ARG002 - memory used again cannot be told apart
        """Return one tensor as stored, in memory of its own, and remember where it lies for as long as it is in use."""
        array = super().read(name)
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._read[owner.ctypes.data] = owner.nbytes
        weakref.finalize(owner, self._read.pop, owner.ctypes.data)
        return array

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is a part of what was read."""
        place = tensor.untyped_storage().data_ptr()
        return any(start <= place < start + size for start, size in self._read.items())


class Tally(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch does: operations, multiplications, bytes taken and given, and memory, stored tensors apart."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = self.flops = 0
        self.moved = self.read = 0
        """Of the bytes moved, those read are the checkpoint's."""
        self.held = self.peak = 0
        self.stored = stored
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        result = operation(*arguments, **(named or {}))
        if not operation.is_view:
            self._count(operation, _tensors((arguments, named)), _tensors(result))
        return result

    def _count(self, operation: Any, taken: list[torch.Tensor], given: list[torch.Tensor]) -> None:
        for tensor in given:
            self._hold(tensor.untyped_storage())
        name = operation.overloadpacket.__name__
        if name.startswith(("new_", "empty")) or name.endswith("_like"):
            return
        self.operations += 1
        self.moved += sum(tensor.nbytes for tensor in taken + given)
        stored = [tensor for tensor in taken if self.stored.holds(tensor)]
        self.read += sum(tensor.nbytes for tensor in (given if stored and operation in GATHERING else stored))
        if name in PRODUCTS:
            left, right = taken[-2:]
            self.flops += 2 * left.numel() * (right.shape[-1] if right.ndim > 1 else 1)

    def _hold(self, storage: torch.UntypedStorage) -> None:
        """Count new memory until it is given back."""
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.held += size
            self.peak = max(self.peak, self.held)
            weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@contextmanager
def by_torch() -> Iterator[None]:
    """Compute every layer with torch on the CPU, where tensors as they are stored need no copy."""
    device = cast(devices.Device, torch.device("cpu"))

    def place(layers: Sequence[int], _memory: devices.Budgets) -> list[devices.Device]:
        return [device] * len(layers)

    with patch.object(devices, "place", place):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Run what is given to a thread pool at once, in this thread: a tally sees no other."""

    def submit(_pool: ThreadPoolExecutor, task: Callable[..., Result], *arguments: Any, **named: Any) -> Future[Result]:
        done: Future[Result] = Future()
        done.set_result(task(*arguments, **named))
        return done

    with patch.object(ThreadPoolExecutor, "submit", submit):
        yield
