"""Safetensors on disk: one file, or shards with an index, memory-mapped, one tensor at a time."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from hf_lineage.errors import CheckpointError, NothingToCompare

if TYPE_CHECKING:
    import torch

SHARD = re.compile(r"[^/\\:\0]+\.safetensors")
"""A file of the folder itself on every platform."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
LARGEST_HEADER = 25_000_000
"""Bytes, the bound that huggingface_hub sets as well."""
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
        self._open: dict[Path, Any] = {}

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
        """Unmap what was read: pages of a mapped file count as this process's memory for as long as they are mapped."""
        self._open.clear()

    def prefetch(self, *names: str) -> None:
        """Let the system read these tensors in the background, where it can, while something else is computed."""
        if not hasattr(os, "posix_fadvise"):
            return
        for info in (self.tensors[name] for name in names):
            with contextlib.suppress(OSError), info.file.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), info.start, info.size, os.POSIX_FADV_WILLNEED)

    def read(self, name: str) -> torch.Tensor:
        """Return one tensor as stored, memory-mapped on the CPU: its bytes are read when they are used.

        Raise NothingToCompare for a number format that is not plain floating point, CheckpointError if the file has
        changed since it was opened.
        """
        info = self.tensors[name]
        if info.dtype not in FLOATS:
            raise NothingToCompare(
                f"{name} is stored as {info.dtype}; quantized formats are not decoded yet, "
                "check the release in F16, BF16 or F32 instead"
            )
        try:
            if info.file not in self._open:
                self._open[info.file] = safetensors.safe_open(info.file, framework="pt", device="cpu")
            tensor: torch.Tensor = self._open[info.file].get_tensor(name)
        except (OSError, ValueError, safetensors.SafetensorError) as error:
            # ValueError is what torch makes of an interrupt that meets it while it measures a storage.
            raise CheckpointError(f"{name} cannot be read: {error}; check that nothing changes the file") from None
        return tensor


def header(file: Path, shown: str) -> Iterator[tuple[str, TensorInfo]]:
    """Yield the tensors that a file's header describes, in the order of their bytes; errors call the file `shown`.

    safetensors itself refuses offsets that overlap, leave a gap or leave the file.
    """
    try:
        with file.open("rb") as stream:
            start = stream.read(8)
            length, size = int.from_bytes(start, "little"), os.fstat(stream.fileno()).st_size
        if start == LFS_POINTER:
            raise CheckpointError(f"{shown} is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")
        if not 2 <= length <= min(size - 8, LARGEST_HEADER):
            raise CheckpointError(
                f"{shown}: the header claims {length} bytes of a file of {size}; "
                "it is truncated or no safetensors file, download it again"
            )
        begin = 8 + length
        with safetensors.safe_open(file, framework="numpy") as opened:
            for name in opened.offset_keys():
                view = opened.get_slice(name)
                info = TensorInfo(file, view.get_dtype(), tuple(view.get_shape()), begin)
                begin += info.size
                yield name, info
    except OSError as error:
        raise CheckpointError(f"{shown} cannot be read: {error.strerror or error}") from None
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{shown} is damaged: {error}; download it again") from None
