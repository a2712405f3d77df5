"""Safetensors on disk: one file, or shards with an index, read one tensor at a time."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors

from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.tensor_file import HeaderLengthError, Stamp, opened_header, read_into

if TYPE_CHECKING:
    import torch

SHARD = re.compile(r"[^/\\:\0]+\.safetensors")
"""A file of the folder itself on every platform."""
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""What torch calls the formats that are read."""
FLOATS = frozenset(DTYPES)
LFS_POINTER = b"version "
"""How the text file begins that git leaves in place of the weights where git-lfs is missing."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as the header of its file describes it."""

    file: Path
    dtype: str
    """In safetensors' spelling: F32, BF16, I8 ..."""
    shape: tuple[int, ...]
    start: int
    """Where its bytes begin in the file."""
    stamp: Stamp | None = None
    """The state of the file when its header was read; None of one that only this process can change."""

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        bits = re.search(r"\d+", self.dtype)
        return self.numbers * int(bits[0] if bits else 8) // 8


class Checkpoint:
    """The tensors of one model; nothing but headers is read until `read`."""

    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        self.tensors = tensors

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, as stored."""
        return {name: info.shape for name, info in self.tensors.items()}

    @property
    def requests(self) -> int:
        """How many requests were made over the network."""
        return 0

    @property
    def bytes_read(self) -> int:
        """How many bytes came over the network."""
        return 0

    def release(self) -> None:
        """Let go of whatever is still on its way."""

    def prefetch(self, *names: str) -> None:
        """Let the system read these tensors in the background, where it can, while something else is computed."""
        if not hasattr(os, "posix_fadvise"):
            return
        for info in (self.tensors[name] for name in names):
            with contextlib.suppress(OSError), info.file.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), info.start, info.size, os.POSIX_FADV_WILLNEED)

    def read(self, name: str) -> torch.Tensor:
        """Return one tensor as stored, on the CPU.

        It is copied, not mapped: a mapped file that shrinks kills the process. Raise NothingToCompare for a number
        format that is not plain floating point, CheckpointError if the file has changed since it was opened.
        """
        info = self.tensors[name]
        if info.dtype not in FLOATS:
            raise NothingToCompare(
                f"{name} is stored as {info.dtype}; quantized formats are not decoded yet, "
                "check the release in F16, BF16 or F32 instead"
            )
        import torch

        room = torch.empty(info.size, dtype=torch.uint8)
        try:
            read_into(info.file, info.start, memoryview(room.numpy().data), info.stamp)
        except OSError as error:
            raise CheckpointError(
                f"{name} cannot be read: {error.strerror or error}; check that nothing changes the file"
            ) from None
        return room.view(getattr(torch, DTYPES[info.dtype])).view(info.shape)


def header(file: Path, shown: str) -> Iterator[tuple[str, TensorInfo]]:
    """Yield the tensors that a file's header describes, in the order of their bytes; errors call the file `shown`.

    safetensors itself refuses offsets that overlap, leave a gap or leave the file.
    """
    try:
        with opened_header(file) as (opened, begin, stamp):
            for name in opened.offset_keys():
                view = opened.get_slice(name)
                info = TensorInfo(file, view.get_dtype(), tuple(view.get_shape()), begin, stamp)
                begin += info.size
                yield name, info
    except HeaderLengthError as error:
        if error.start == LFS_POINTER:
            raise CheckpointError(
                f"{shown} is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder"
            ) from None
        raise CheckpointError(f"{shown}: {error}; it is truncated or no safetensors file, download it again") from None
    except OSError as error:
        raise CheckpointError(f"{shown} cannot be read: {error.strerror or error}") from None
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{shown} is damaged: {error}; download it again") from None
