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

from hf_lineage.errors import CheckpointError, NothingToCompare, printable
from hf_lineage.repo import RepoRef

if TYPE_CHECKING:
    import torch

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"[^/\\:\0]+\.safetensors")
"""A file of the folder itself on every platform."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
LARGEST_HEADER = 25_000_000
"""Bytes, the bound that huggingface_hub sets as well."""
LFS_POINTER = b"version "
"""How the text file begins that git leaves in place of the weights where git-lfs is missing."""
CONVERT = "convert it with `AutoModel.from_pretrained(...).save_pretrained(folder)` where you trust the file"


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


def open_checkpoint(repo: RepoRef) -> Checkpoint:
    """Return the checkpoint of a repository, every header checked.

    Raise NothingToCompare if it holds no safetensors weights, CheckpointError if they are damaged or lie.
    """
    repo.fetch(SINGLE)
    index = repo.read_json(INDEX) if not repo.has(SINGLE) else None
    if repo.has(SINGLE):
        return Checkpoint(dict(_header(repo.path(SINGLE))))
    if index is not None:
        return Checkpoint(_sharded(repo, index))
    raise NothingToCompare(other_format(repo) or f"{repo} holds no weights ({SINGLE} or {INDEX})")


def _sharded(repo: RepoRef, index: Mapping[str, object]) -> dict[str, TensorInfo]:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CheckpointError(f"{repo}: {INDEX} has no `weight_map` from tensor names to file names; download it again")
    shards = sorted(set(weight_map.values()))
    strange = next((shard for shard in shards if not SHARD.fullmatch(shard)), None)
    if strange is not None:
        raise CheckpointError(
            f"{repo}: {INDEX} names a shard that is no safetensors file of this folder: {printable(strange, 200)}; "
            "do not trust this model"
        )
    repo.fetch(*shards)
    tensors: dict[str, TensorInfo] = {}
    for shard in shards:
        if not repo.has(shard):
            raise CheckpointError(f"{repo}: {INDEX} names the shard {shard}, which is missing; download it again")
        for name, info in _header(repo.path(shard)):
            if name in tensors:
                raise CheckpointError(
                    f"{repo}: {name} is in both {tensors[name].file.name} and {shard}; which one counts?"
                )
            tensors[name] = info
    lost = sorted(set(weight_map) - set(tensors))
    if lost:
        raise CheckpointError(f"{repo}: {INDEX} names the tensor {lost[0]}, which no shard holds; download them again")
    return tensors


def _header(file: Path) -> Iterator[tuple[str, TensorInfo]]:
    """The tensors that a file's header describes, in the order of their bytes.

    safetensors itself refuses offsets that overlap, leave a gap or leave the file.
    """
    try:
        with file.open("rb") as stream:
            start = stream.read(8)
            length, size = int.from_bytes(start, "little"), os.fstat(stream.fileno()).st_size
        if start == LFS_POINTER:
            raise CheckpointError(f"{file} is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")
        if not 2 <= length <= min(size - 8, LARGEST_HEADER):
            raise CheckpointError(
                f"{file}: the header claims {length} bytes of a file of {size}; "
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
        raise CheckpointError(f"{file} cannot be read: {error.strerror or error}") from None
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{file} is damaged: {error}; download it again") from None


def other_format(repo: RepoRef) -> str | None:
    """Return what a repository without usable weights holds instead and what to do about it, None if nothing known."""
    files = repo.files()
    if "adapter_model.safetensors" in files or "adapter_config.json" in files:
        return f"{repo} holds only a LoRA adapter; merge it into its base (peft: merge_and_unload) and check the result"
    loose = next((name for name in files if name.endswith(".safetensors") and name != SINGLE), None)
    if loose:
        return f"{repo} has {loose} but neither {SINGLE} nor {INDEX}; add the index that save_pretrained writes"
    pickled = next((name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt"))), None)
    if pickled:
        return f"{repo} holds its weights as a pickle ({pickled}), which is never loaded; {CONVERT}"
    gguf = next((name for name in files if name.endswith(".gguf")), None)
    if gguf:
        return f"{repo} holds its weights as GGUF ({gguf}), which is not decoded yet; check the safetensors release"
    return None
