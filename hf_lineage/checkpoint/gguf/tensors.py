"""GGUF: the tensors of a model as llama.cpp stores them, each decoded when it is read.

The package `gguf` knows how llama.cpp stores and names tensors; it is imported where a GGUF file is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.gguf.codes import codes_of
from hf_lineage.checkpoint.gguf.files import read_head
from hf_lineage.checkpoint.gguf.header import GgufTensor
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.remote import ranged
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import ByRows, Decode, TensorInfo, as_stored, single
from hf_lineage.errors import CheckpointError, NothingToCompare, installation, printable
from hf_lineage.files.safetensors import Stamp
from hf_lineage.hub.repo import RepoRef


def gguf() -> Any:
    """Return the package; raise NothingToCompare where it is not installed."""
    try:
        import gguf as package
    except ImportError:
        raise NothingToCompare(
            f"hf-lineage needs the package gguf to read a GGUF file; run `{installation('gguf')}`"
        ) from None
    return package


PLAIN = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}
"""The number of a type of llama.cpp that needs no decoding -> its name in safetensors' spelling."""
BYTES = "U8"
EXPERTS = "_exps."
"""In the name of a tensor that holds one matrix for each expert."""
FACTORS = (".scale", ".input_scale")
"""Ends of the names of factors beside a matrix; the second multiplies the inputs of the matrix."""
TOTAL = "split.tensors.count"
Array = NDArray[Any]


def open_gguf(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in these GGUF files, by the names in them, every header checked.

    Raise CheckpointError if they are damaged or do not belong together, NothingToCompare without the package `gguf`.
    """
    gguf()
    heads = {file: read_head(repo, file) for file in files}
    opened = ranged(repo, files)
    places = opened.paths(repo, files)
    stored: dict[str, StoredTensor] = {}
    tensors: dict[str, TensorInfo] = {}
    for file, head in heads.items():
        opened.downloads.count(head.requests, head.downloaded)
        _refuse_overlap(repo, file, head.header.tensors, places[file], head.stamp)
        for tensor in head.header.tensors:
            if tensor.name in tensors:
                raise CheckpointError(
                    f"{repo}: {printable(tensor.name, 200)} is in two parts of the model; have them saved again"
                )
            parts = dict(_parts(tensor, places[file], head.stamp))
            stored |= parts
            tensors |= _tensors(tensor, parts)
    total = next(iter(heads.values())).header.metadata.get(TOTAL)
    held = sum(len(head.header.tensors) for head in heads.values())
    if isinstance(total, int) and total != held:
        raise CheckpointError(f"{repo}: its parts hold {held} tensors of {total}; have them saved again")
    return opened.checkpoint(stored, tensors)


def apply_factors(plain: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which each matrix is multiplied with the factor beside it, which is no tensor any more."""
    tensors = {
        name: _scaled(info, name, plain)
        for name, info in plain.tensors.items()
        if not (name.endswith(FACTORS) and f"{name.rpartition('.')[0]}.weight" in plain.tensors)
    }
    return plain.with_tensors(tensors)


def _parts(tensor: GgufTensor, file: Path, stamp: Stamp | None) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the pieces that are read of a tensor: each expert by itself."""
    length, size = _row(tensor)
    dtype = PLAIN.get(tensor.kind, BYTES)
    experts, *shape = tensor.shape if _stacked(tensor) else (1, *tensor.shape)
    row = tensor.shape[-1] if dtype != BYTES else tensor.shape[-1] // length * size
    whole = math.prod(shape) // length * size
    for expert in range(experts):
        name = f"{tensor.name}[{expert}]" if _stacked(tensor) else tensor.name
        yield name, StoredTensor(file, dtype, (*shape[:-1], row), tensor.start + expert * whole, stamp)


def _tensors(tensor: GgufTensor, parts: Mapping[str, StoredTensor]) -> dict[str, TensorInfo]:
    """Return a tensor as it is loaded and, of a stack, each expert by itself."""
    refusal, decode = "", as_stored if tensor.kind in PLAIN else ByRows(partial(_decoded, tensor.kind))
    itemsize = 0 if tensor.kind in PLAIN else 4
    codes = "" if tensor.kind in PLAIN else codes_of(_kind(tensor.kind), decode)
    if not _decodes(tensor.kind):
        refusal = f"is stored as {_kind(tensor.kind)}, which the installed package gguf does not decode"
    if not _stacked(tensor):
        return {tensor.name: TensorInfo(tensor.shape, tuple(parts), decode, itemsize, refusal, codes=codes)}
    experts = {name: TensorInfo(tensor.shape[1:], (name,), decode, itemsize, refusal, codes=codes) for name in parts}
    return {tensor.name: TensorInfo(tensor.shape, tuple(parts), partial(_joined, decode), 4, refusal), **experts}


@cache
def _decodes(kind: int) -> bool:
    """Return whether the installed package decodes a type."""
    package = gguf()
    block = np.zeros((1, package.GGML_QUANT_SIZES[kind][1]), np.uint8)
    try:
        return kind in PLAIN or package.quants.dequantize(block, package.GGMLQuantizationType(kind)) is not None
    except NotImplementedError:
        return False


def _decoded(kind: int, parts: Sequence[Array]) -> Array:
    (stored,) = parts
    with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
        decoded: Array = gguf().quants.dequantize(stored, gguf().GGMLQuantizationType(kind))
    return decoded


def _joined(decode: Decode, parts: Sequence[Array]) -> Array:
    return np.stack([decode([part]) for part in parts])


def _stacked(tensor: GgufTensor) -> bool:
    return len(tensor.shape) == 3 and EXPERTS in tensor.name


def _kind(kind: int) -> str:
    """Return the name of a type of llama.cpp."""
    try:
        return str(gguf().GGMLQuantizationType(kind).name)
    except ValueError:
        return f"type {kind}"


def _row(tensor: GgufTensor) -> tuple[int, int]:
    """Return numbers and bytes of a block of a tensor; raise CheckpointError where its rows are no whole blocks."""
    sizes = gguf().GGML_QUANT_SIZES
    if tensor.kind not in sizes:
        raise CheckpointError(
            f"{printable(tensor.name, 200)} is of the type {tensor.kind}, which the installed package gguf does not "
            "know; `pip install --upgrade gguf`, or do not trust the file"
        )
    length, size = sizes[tensor.kind]
    if tensor.shape[-1] % length:
        raise CheckpointError(
            f"{printable(tensor.name, 200)} has rows of {tensor.shape[-1]} numbers, which is not a multiple of the "
            f"block size, {length} as {_kind(tensor.kind)} has; do not trust the file"
        )
    return int(length), int(size)


def _refuse_overlap(repo: RepoRef, file: str, tensors: Iterable[GgufTensor], place: Path, stamp: Stamp | None) -> None:
    """Raise CheckpointError where a tensor leaves its file, or begins before the one in front of it ends."""
    size = stamp.size if stamp else place.stat().st_size
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.start):
        length, block = _row(tensor)
        if tensor.start < end:
            raise CheckpointError(f"{repo}: {file}: {tensor.name} overlaps {before}; do not trust the file")
        end, before = tensor.start + math.prod(tensor.shape) // length * block, tensor.name
    if end > size:
        raise CheckpointError(f"{repo}: {file} is truncated: {before} ends at byte {end} of {size}; download it again")


def _scaled(info: TensorInfo, stored: str, plain: Checkpoint) -> TensorInfo:
    """Return a matrix with the factor that llama.cpp multiplies it with, where the file has one beside it."""
    bare, bracket, expert = stored.partition("[")
    beside = f"{bare.removesuffix('.weight')}.scale"
    scale = plain.tensors.get(beside) if bare.endswith(".weight") else None
    if scale is None:
        return info
    numbers = math.prod(scale.shape)
    index = int(expert.rstrip("]")) if bracket else 0
    if numbers != 1 and not (bracket and index < numbers):
        return replace(info, refusal=f"has {numbers} factors instead of one")
    decode, count = info.decode, len(info.parts)

    def scaled(parts: Sequence[Array]) -> Array:
        factors = single(scale.decode(parts[count:])).reshape(-1)
        matrix: Array = single(decode(parts[:count]))
        result: Array = matrix * factors[index if numbers > 1 else 0]
        return result

    parts = (*info.parts, *scale.parts)
    return replace(info, parts=parts, decode=scaled, itemsize=4, refusal=info.refusal or scale.refusal)
