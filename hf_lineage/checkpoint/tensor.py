"""A tensor of a model as it is loaded, its decoding from stored tensors, and the number formats of these."""

import math
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import safetensors
from numpy.typing import NDArray

from hf_lineage.architecture.registry import find_known
from hf_lineage.checkpoint.codes import Codes, Decode, Parts
from hf_lineage.errors import CheckpointError, remedy
from hf_lineage.files.safetensors import LARGEST_HEADER, HeaderLengthError, Stamp, opened_header, prefetch, read_into

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
DTYPES |= {f"F{8 * size}": np.dtype(f"f{size}") for size in (8, 4, 2)}
DTYPES |= {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (8, 4, 2, 1)}
"""The number formats of safetensors -> those of NumPy."""
WIDER: dict[np.dtype[Any], type[np.unsignedinteger[Any]]]
WIDER = {DTYPES["F64"]: np.uint64, DTYPES["F32"]: np.uint32, DTYPES["BF16"]: np.uint16}
"""Formats with numbers that float16 lacks -> integers of their size, which order bit patterns by magnitude."""


class _Small(NamedTuple):
    """A number format with a sign, fewer bits of exponent and fewer of the fraction than float32, otherwise alike."""

    signed: type[np.signedinteger[Any]]  # integers of its size
    shift: int  # between the places of its bits and those of the same bits in a float32
    mask: np.int32  # the sign of a float32, and the places where the other bits lie after the shift
    scale: np.float32  # a power of two, because the exponents of the two formats have different offsets
    ends: np.float32  # the least value of the shifted bits if the exponent stands for an infinity or for NaN


SMALL: dict[np.dtype[Any], _Small] = {
    DTYPES[name]: _Small(signed, shift, np.uint32(mask).astype(np.int32), np.float32(2.0**power), np.float32(end))
    for name, signed, shift, mask, power, end in (
        ("F16", np.int16, 13, 0x8FFFE000, 112, 65536),
        ("F8_E4M3", np.int8, 20, 0x87F00000, 120, 480),
        ("F8_E5M2", np.int8, 21, 0x8FE00000, 112, 65536),
    )
}  # the number formats that are widened by shifting bits: a third of NumPy's time for float16, a tenth for float8


def widen(target: NDArray[np.float32], stored: NDArray[Any]) -> None:
    """Write stored numbers of any format into an array in float32 of the same shape; what is too large is infinite."""
    small = SMALL.get(stored.dtype)
    if small is None:
        with np.errstate(over="ignore"):
            target[...] = stored
        return
    bits = target.view(np.int32)
    np.left_shift(stored.view(small.signed), small.shift, out=bits, dtype=np.int32)
    np.bitwise_and(bits, small.mask, out=bits)
    np.multiply(target, small.scale, out=target)
    if target.size and (target.max() >= small.ends or target.min() <= -small.ends):
        target[...] = stored


def single(stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return stored numbers of any format in float32; those that are float32 already are returned themselves."""
    if stored.dtype == np.float32:
        return stored
    target = np.empty(stored.shape, np.float32)
    widen(target, stored)
    return target


def as_stored(parts: Parts) -> NDArray[Any]:
    """Return the only part as it is."""
    (whole,) = parts
    return whole


@dataclass(frozen=True)
class ByRows:
    """A function that decodes each row of a matrix from the same row of its parts, so that rows can be read alone."""

    decode: Decode

    def __call__(self, parts: Parts) -> NDArray[Any]:
        """Return as many rows as the parts have, decoded."""
        return self.decode(parts)


def constant(value: float) -> "TensorInfo":
    """Return a tensor of one number that no file stores as one."""
    return TensorInfo((1,), (), lambda _: np.array([value], np.float32), itemsize=4)


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a model as it is loaded."""

    shape: tuple[int, ...]
    parts: tuple[str, ...]  # the names of the stored tensors from which it is decoded
    decode: Decode = as_stored
    itemsize: int = 0  # bytes of each decoded number; 0 where it is the stored part itself
    refusal: str = ""  # why it cannot be decoded, as a phrase that follows its name; empty if it can
    linear: bool = False  # whether it is (out, in) because of how it is stored, also where the class has (in, out)
    codes: Codes | str = field(default="", compare=False)  # the grid of its numbers, or why no bound holds for each

    def transpose(self) -> "TensorInfo":
        """Return the transposed matrix."""
        return replace(self, shape=self.shape[::-1], decode=lambda parts: self.decode(parts).T)

    @property
    def numbers(self) -> int:
        """The number of numbers in the tensor."""
        return math.prod(self.shape)


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

    def rows(self, chosen: slice) -> "StoredTensor":
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
        if self.halved and (integers := WIDER.get(numbers.dtype)):
            sizes, sign = numbers.view(integers), integers(1) << integers(8 * numbers.itemsize - 1)
            # Numbers up to this size are 0 in float16.
            lost = (sizes & ~sign) <= np.array(2.0**-25, numbers.dtype).view(integers)
            if lost.any():
                sizes[lost] = 0
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
