"""GGUF: the tensors of a model as llama.cpp stores them, each decoded by the package `gguf` when it is read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, Decode, Levels, ScaleStep, table, uniform, within_blocks
from hf_lineage.checkpoint.formats.grid import E2M1
from hf_lineage.checkpoint.gguf.files import GgufTensor, read_head
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.remote import open_ranged
from hf_lineage.checkpoint.tensor import ByRows, StoredTensor, TensorInfo, as_stored, single
from hf_lineage.errors import CheckpointError, NothingToCompare, installation, printable
from hf_lineage.files.safetensors import Stamp
from hf_lineage.hub.repo import RepoRef

PLAIN = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}  # types that need no decoding, in safetensors' spelling
FACTORS = ("scale", "input_scale")  # factors beside a matrix; the second multiplies what the matrix is given
Array = NDArray[Any]
NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
LEAST = b"\x01\x00"  # the smallest number of float16: the step of a scale that is small
Pattern = tuple[int, bytes]  # a position in a block, and bytes that stand there
PLAIN_RULES = {"early": True, "more_slack": 0.65}  # what an importance matrix leaves where it fits a scale afterwards
SEARCHED = {"reach": 2.0, "searched": True}  # a block may fall 2 steps short of a grid whose scale was searched for
WITH_MINIMA, EARLY = SEARCHED | {"both": True, "zero": True}, SEARCHED | {"early": True}
SIX, SIX_MINIMA = (4, bytes([1] * 4 + [0] * 4 + [1] * 4)), (4, bytes([0] * 4 + [1] * 4 + [0x10] * 4))
"""Eight scales of six bits that are 1 each with minima that are 0, and the other way round."""
Q2_SCALES, Q2_MINIMA = (0, b"\x01" * 16), (0, b"\x10" * 16)
Q3_SCALES, Q6_SCALES, NV_SCALES = (96, b"\x11" * 8 + b"\xaa" * 4), (192, b"\x01" * 16), (0, b"\x01" * 4)
IQ4_SCALES = (2, b"\xaa\xaa\x11\x11\x11\x11")


def gguf() -> Any:
    """Return the package; raise NothingToCompare where it is not installed."""
    try:
        import gguf as package
    except ImportError:
        needs = "hf-lineage needs the package gguf to read a GGUF file"
        raise NothingToCompare(f"{needs}; run `{installation('gguf')}`") from None
    return package


def open_gguf(repo: RepoRef, files: Sequence[str]) -> Checkpoint:
    """Return the checkpoint in these GGUF files, by the names in them, every header checked."""
    gguf()
    heads = {file: read_head(repo, file) for file in files}
    opened = open_ranged(repo, files)
    places = opened.paths(repo, files)
    stored: dict[str, StoredTensor] = {}
    tensors: dict[str, TensorInfo] = {}
    for file, head in heads.items():
        opened.downloads.count(head.requests, head.downloaded)
        size = head.stamp.size if head.stamp else places[file].stat().st_size
        end, before = 0, ""
        for tensor in sorted(head.tensors, key=lambda tensor: tensor.start):
            length, block = _row(tensor)
            if tensor.start < end:
                raise CheckpointError(f"{repo}: {file}: {tensor.name} overlaps {before}; do not trust the file")
            end, before = tensor.start + math.prod(tensor.shape) // length * block, tensor.name
        if end > size:
            what = f"is truncated: {before} ends at byte {end} of {size}; download it again"
            raise CheckpointError(f"{repo}: {file} {what}")
        for tensor in head.tensors:
            if tensor.name in tensors:
                text = printable(tensor.name, 200)
                raise CheckpointError(f"{repo}: {text} is in two parts of the model; have them saved again")
            parts = _parts(tensor, places[file], head.stamp)
            stored |= parts
            tensors |= _tensors(tensor, tuple(parts))
    total = next(iter(heads.values())).metadata.get("split.tensors.count")
    count = sum(len(head.tensors) for head in heads.values())
    if isinstance(total, int) and total != count:
        raise CheckpointError(f"{repo}: its parts hold {count} tensors of {total}; have them saved again")
    return opened.checkpoint(stored, tensors)


def _parts(tensor: GgufTensor, file: Path, stamp: Stamp | None) -> dict[str, StoredTensor]:
    length, size = _row(tensor)
    dtype = PLAIN.get(tensor.kind, "U8")
    experts, *shape = tensor.shape if _is_stack(tensor) else (1, *tensor.shape)
    row = tensor.shape[-1] if tensor.kind in PLAIN else tensor.shape[-1] // length * size
    whole = math.prod(shape) // length * size
    names = [f"{tensor.name}[{expert}]" for expert in range(experts)] if _is_stack(tensor) else [tensor.name]
    places = zip(names, range(tensor.start, tensor.start + experts * whole, whole), strict=True)
    return {name: StoredTensor(file, dtype, (*shape[:-1], row), start, stamp) for name, start in places}


def _tensors(tensor: GgufTensor, parts: tuple[str, ...]) -> dict[str, TensorInfo]:
    decode, codes, itemsize, refusal = _decoding(tensor.kind)
    shape = tensor.shape[1:] if _is_stack(tensor) else tensor.shape
    alone = {part: TensorInfo(shape, (part,), decode, itemsize, refusal, codes=codes) for part in parts}
    if not _is_stack(tensor):
        return alone

    def stack(stored: Sequence[Array]) -> Array:
        return np.stack([decode([part]) for part in stored])

    return {tensor.name: TensorInfo(tensor.shape, parts, stack, 4, refusal), **alone}


@cache
def _decoding(kind: int) -> tuple[Decode, Codes | str, int, str]:
    """Return the function that decodes a type, its grid, bytes of a number, and why it cannot be decoded, if so."""
    if kind in PLAIN:
        return as_stored, "", 0, ""
    package, name, refusal = gguf(), _name(kind), ""

    def dequantize(parts: Sequence[Array]) -> Array:
        (stored,) = parts
        with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
            numbers: Array = package.quants.dequantize(stored, package.GGMLQuantizationType(kind))
        return numbers

    try:
        dequantize([np.zeros((1, package.GGML_QUANT_SIZES[kind][1]), np.uint8)])
    except NotImplementedError:
        refusal = f"is stored as {name}, which the installed package gguf does not decode"
    decode = ByRows(dequantize)
    return decode, codes_of(name, decode), 4, refusal


def _is_stack(tensor: GgufTensor) -> bool:
    return len(tensor.shape) == 3 and "_exps." in tensor.name  # one matrix for each expert


def _name(kind: int) -> str:
    try:
        return str(gguf().GGMLQuantizationType(kind).name)
    except ValueError:
        return f"type {kind}"


def _row(tensor: GgufTensor) -> tuple[int, int]:
    """Return numbers and bytes of a block of a tensor; raise CheckpointError where its rows are no whole blocks."""
    sizes, name = gguf().GGML_QUANT_SIZES, printable(tensor.name, 200)
    if tensor.kind not in sizes:
        why = f"is of the type {tensor.kind}, which the installed package gguf does not know"
        raise CheckpointError(f"{name} {why}; `pip install --upgrade gguf`, or do not trust the file")
    length, size = sizes[tensor.kind]
    if tensor.shape[-1] % length:
        why = f"which is not a multiple of the block size, {length} as {_name(tensor.kind)} has"
        raise CheckpointError(f"{name} has rows of {tensor.shape[-1]} numbers, {why}; do not trust the file")
    return int(length), int(size)


def apply_factors(plain: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which each matrix is multiplied with the factor beside it, which is no tensor any more."""
    tensors = {}
    for name, info in plain.tensors.items():
        bare, bracket, expert = name.partition("[")
        start, _, kind = bare.rpartition(".")
        scale = plain.tensors.get(f"{start}.scale") if kind == "weight" else None
        if scale is not None:
            tensors[name] = _scale_matrix(info, scale, int(expert.rstrip("]")) if bracket else None)
        elif kind not in FACTORS or f"{start}.weight" not in plain.tensors:
            tensors[name] = info
    return plain.with_tensors(tensors)


def _scale_matrix(info: TensorInfo, scale: TensorInfo, expert: int | None) -> TensorInfo:
    """Return a matrix with the factor that llama.cpp multiplies it with: the only one, or that of its expert."""
    numbers = math.prod(scale.shape)
    if numbers != 1 and not (expert is not None and expert < numbers):
        return replace(info, refusal=f"has {numbers} factors instead of one")
    decode, count = info.decode, len(info.parts)

    def multiply(parts: Sequence[Array]) -> Array:
        factors = single(scale.decode(parts[count:])).reshape(-1)
        matrix: Array = single(decode(parts[:count]))
        result: Array = matrix * factors[expert or 0 if numbers > 1 else 0]
        return result

    parts = (*info.parts, *scale.parts)
    return replace(info, parts=parts, decode=multiply, itemsize=4, refusal=info.refusal or scale.refusal)


@dataclass(frozen=True)
class Kind:
    """One type: the places of its codes and scales in a block, and the grid of its codes."""

    size: int  # bytes of a block
    codes: tuple[int, int]  # the position of the first byte of the codes, and the one behind the last
    levels: Levels
    share: int  # numbers that share a scale
    ends: tuple[int, int] = (0x00, 0xFF)  # the byte that holds the least codes, and the largest
    scale: int | None = None  # the position of the float16 that scales a block; None where there is none
    one: Pattern | None = None  # the scales within a block where each is 1
    minima: Pattern | None = None  # the minima within a block where each is 1
    most: float = math.inf  # largest step of the scales, as a share of the block's widest grid; not of float16
    rules: Mapping[str, Any] = field(default_factory=dict)  # errors that its quantizers leave, by the fields of `Codes`


KINDS: Mapping[str, Kind] = {
    "Q4_0": Kind(18, (2, 18), uniform(16), 32, scale=0, rules=PLAIN_RULES),
    "Q4_1": Kind(20, (4, 20), uniform(16), 32, scale=0, rules=PLAIN_RULES | {"both": True}),
    "Q5_0": Kind(22, (2, 22), uniform(32), 32, scale=0, rules=PLAIN_RULES),
    "Q5_1": Kind(24, (4, 24), uniform(32), 32, scale=0, rules=PLAIN_RULES | {"both": True}),
    "Q8_0": Kind(34, (2, 34), uniform(256), 32, (0x80, 0x7F), 0, rules={"early": True, "reach": 1.55}),
    "Q2_K": Kind(84, (16, 80), uniform(4), 16, (0, 255), 80, Q2_SCALES, Q2_MINIMA, 0.1, WITH_MINIMA | {"reach": 1.55}),
    "Q3_K": Kind(110, (0, 96), uniform(8), 16, scale=108, one=Q3_SCALES, most=0.035, rules=SEARCHED),
    "Q4_K": Kind(144, (16, 144), uniform(16), 32, (0, 255), 0, SIX, SIX_MINIMA, 0.02, WITH_MINIMA),
    "Q5_K": Kind(176, (16, 176), uniform(32), 32, (0, 255), 0, SIX, SIX_MINIMA, 0.02, WITH_MINIMA),
    "Q6_K": Kind(210, (0, 192), uniform(64), 16, scale=208, one=Q6_SCALES, most=0.0085, rules=SEARCHED),
    "IQ4_NL": Kind(18, (2, 18), table(NONLINEAR), 32, scale=0, rules=PLAIN_RULES),
    "IQ4_XS": Kind(136, (8, 136), table(NONLINEAR), 32, scale=0, one=IQ4_SCALES, most=0.035, rules=EARLY),
    "MXFP4": Kind(17, (1, 17), table(E2M1), 32, (0xFF, 0x77), rules={"clip": 1.1, "reach": 1.6}),
    "NVFP4": Kind(36, (4, 36), table(E2M1), 16, (0xFF, 0x77), one=NV_SCALES, rules={"reach": 1.6}),
    "TQ2_0": Kind(66, (0, 64), uniform(3), 256, (0x00, 0xAA)),
    "TQ1_0": Kind(54, (0, 52), uniform(3), 256),
}  # name of a type in llama.cpp -> its layout


def codes_of(name: str, decode: Callable[..., Any]) -> Codes | str:
    """Return the grid of a type, or why no bound holds for its numbers; empty where nothing is known of it."""
    kind = KINDS.get(name)
    if kind is None:  # a code of IQ1, IQ2 and IQ3 stands for a whole vector
        chooses = f"{name} chooses among tabled vectors of several numbers by a weighted error"
        return f"{chooses}, so that no bound holds for each number" if name.startswith("IQ") else ""
    start, stop = kind.codes
    low, high = ((start, bytes([byte]) * (stop - start)) for byte in kind.ends)
    pairs: list[tuple[float, tuple[Pattern, ...], tuple[Pattern, ...]]] = []
    if kind.one:
        pairs.append((kind.most, (kind.one, low), (kind.one, high)))
    if kind.scale is not None:
        pairs.append((math.inf, ((kind.scale, LEAST), low), ((kind.scale, LEAST), high)))
    if kind.minima:
        place, minima = kind.minima
        pairs.append((kind.most, (kind.minima,), ((place, bytes(len(minima))),)))
    fill = partial(within_blocks, kind.size)
    steps = tuple(ScaleStep((fill(*one), fill(*other)), most, 256) for most, one, other in pairs)  # numbers of a block
    return Codes(name, fill(low), fill(high), decode, kind.levels, (1, kind.share), steps=steps, **kind.rules)
