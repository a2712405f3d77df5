"""Stored tensors: the entries of a file's header, and the bytes of each, copied out of the file into memory."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from hf_lineage.architecture.registry import find_known
from hf_lineage.checkpoint.tensor import DTYPES, without_smallest
from hf_lineage.errors import CheckpointError, remedy
from hf_lineage.files.safetensors import LARGEST_HEADER, HeaderLengthError, Stamp, opened_header, prefetch, read_into

LFS_POINTER = b"version "  # git leaves a text that begins so where git-lfs is missing
ALIGNMENT = 64  # bytes: a cache line, and a multiple of the size of every number format


def align_size(size: int) -> int:
    """Return the size in bytes of a tensor, rounded up so that the next tensor is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Memory:
    """Memory that is used again, as the system clears new memory first; several threads may take from it."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        self._taken = 0
        self._lock = threading.Lock()

    def reuse(self, sizes: Iterable[int]) -> None:
        """Mark everything as free, and make room for tensors of these sizes, in bytes."""
        self._taken, size = 0, sum(map(align_size, sizes))
        if size > len(self._bytes):
            self._bytes = np.empty(0, np.uint8)  # the old memory goes before the new one comes
            self._bytes = np.empty(size, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return the next free bytes (size,), aligned; new memory where too few are left."""
        with self._lock:
            start = self._taken
            if start + align_size(size) > len(self._bytes):
                return np.empty(size, np.uint8)
            self._taken += align_size(size)
        return self._bytes[start : start + size]


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as the header of its file describes it."""

    file: Path
    dtype: str  # in safetensors' spelling: F32, BF16, I8 ..
    shape: tuple[int, ...]
    start: int  # the position of its first byte in the file
    stamp: Stamp | None = None  # state of the file when its header was read; None if only this process changes it
    halved: bool = False  # whether the model is loaded in float16, in which the smallest numbers of other formats are 0

    @property
    def numbers(self) -> int:
        """The number of numbers in the tensor."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        bits = re.search(r"\d+", self.dtype)
        return self.numbers * int(bits[0] if bits else 8) // 8

    def rows(self, chosen: slice) -> StoredTensor:
        """Return some consecutive rows of a matrix as a tensor of their own."""
        start, stop, _ = chosen.indices(self.shape[0])
        row = self.size // self.shape[0]
        return replace(self, shape=(stop - start, *self.shape[1:]), start=self.start + start * row)

    def prefetch(self) -> None:
        """Ask the system to read it in the background, where it can, while something else is computed."""
        prefetch(self.file, self.start, self.size, self.stamp)

    def read(self, memory: Memory) -> NDArray[Any]:
        """Return its numbers as they are stored, in `memory` or new memory; raise OSError if the file has changed."""
        # They are copied, not mapped: a mapped file that shrinks kills the process.
        buffer = memory.take(self.size)
        read_into(self.file, self.start, buffer.data, self.stamp)
        numbers = buffer.view(DTYPES[self.dtype]).reshape(self.shape)
        if self.halved:
            without_smallest(numbers)
        return numbers


def unreadable(name: str, error: OSError) -> CheckpointError:
    """Return the error about a tensor that cannot be read any more, though its header could."""
    return CheckpointError(f"{name} cannot be read: {error.strerror or error}; check that nothing changes the file")


@dataclass(frozen=True)
class StoredRows:
    """A matrix, or a stack of them, as stored, whose rows are read each time they are asked for; it takes no memory."""

    name: str
    tensor: StoredTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns), or (experts, rows, columns)."""
        return self.tensor.shape

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, chosen: slice, memory: Memory) -> NDArray[Any]:
        """Return some consecutive rows, read into `memory`; raise CheckpointError if the file has changed."""
        part = self.tensor.rows(chosen)
        memory.reuse([part.size])
        try:
            return part.read(memory)
        except OSError as error:
            raise unreadable(self.name, error) from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix, as NumPy asks for it."""
        del copy
        return self.read(slice(None), Memory()).astype(dtype or DTYPES[self.tensor.dtype], copy=False)


def header(file: Path, text: str) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors that a file's header describes, in the order of their bytes; errors call the file `text`."""
    try:
        with opened_header(file) as (opened, begin, stamp):
            for name in opened.offset_keys():
                view = opened.get_slice(name)
                tensor = StoredTensor(file, view.get_dtype(), tuple(view.get_shape()), begin, stamp)
                begin += tensor.size
                yield name, tensor
    except HeaderLengthError as error:
        what = find_known("contents", [error.start.decode(errors="replace")]) or f"of no known form: {error}"
        why = f" is no safetensors file but {what}; put the weights there"
        if error.start == LFS_POINTER:
            why = " is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder"
        elif error.length <= LARGEST_HEADER:
            why = f": {error}; it is cut off, download it again"
    except OSError as error:
        why = f" cannot be read: {error.strerror or error}; {remedy(error, 'check its permissions')}"
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        why = f" is damaged: {error}; have it saved again, or download it again"
    else:
        return
    raise CheckpointError(f"{text}{why}")
