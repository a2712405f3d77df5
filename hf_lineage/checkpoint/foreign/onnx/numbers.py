"""The numbers of ONNX tensors, decoded from bytes, from a list of whole numbers, or from two in a byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.foreign.onnx.header import VARINTS, OnnxTensor
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import DTYPES, TensorInfo
from hf_lineage.errors import CheckpointError
from hf_lineage.files import Stamp

Array = NDArray[Any]
KINDS = {1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64", 12: "U32"}
KINDS |= {13: "U64", 16: "BF16", 17: "F8_E4M3", 19: "F8_E5M2", 24: "F8_E8M0"}
"""The number of a data type that NumPy has too -> its name in safetensors' spelling."""
HALVES = {21: False, 22: True}
"""The number of a data type of four bits -> whether it has a sign."""


def stored(tensor: OnnxTensor, file: Path, stamp: Stamp | None) -> StoredTensor:
    """Return a constant as its file holds it: in a number format of NumPy, or as bytes that are decoded later."""
    if tensor.form == VARINTS or tensor.kind not in KINDS:
        return StoredTensor(file, "U8", (tensor.span.length,), tensor.span.start, stamp)
    return StoredTensor(file, KINDS[tensor.kind], tensor.shape, tensor.span.start, stamp)


def constant(tensor: OnnxTensor) -> TensorInfo:
    """Return a constant as a tensor of the model."""
    parts = (tensor.name,)
    if tensor.kind in HALVES:
        return TensorInfo(tensor.shape, parts, partial(_halves, tensor), itemsize=1)
    if tensor.kind not in KINDS:
        why = f"is stored as data type {tensor.kind} of ONNX, which hf-lineage cannot read"
        return TensorInfo(tensor.shape, parts, refusal=why)
    if tensor.form == VARINTS:
        return TensorInfo(tensor.shape, parts, partial(_listed, tensor), itemsize=8)
    return TensorInfo(tensor.shape, parts)


def unpacked(content: Array, bits: int) -> Array:
    """Return bytes (..., n) as the whole numbers (..., n * 8 / bits) packed in them, that of the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers: Array = (content[..., None] >> shifts & np.uint8(2**bits - 1)).reshape(*content.shape[:-1], -1)
    return numbers


def _listed(tensor: OnnxTensor, parts: Sequence[Array]) -> Array:
    """Return the numbers of a list; floats of sixteen bits stand in it as whole numbers of the same bits."""
    dtype = DTYPES[KINDS[tensor.kind]]
    numbers = _whole_numbers(tensor, parts[0])
    if dtype.kind in "iub":
        return numbers.astype(dtype).reshape(tensor.shape)
    return numbers.astype(f"u{dtype.itemsize}").view(dtype).reshape(tensor.shape)


def _halves(tensor: OnnxTensor, parts: Sequence[Array]) -> Array:
    """Return numbers of four bits, the first in the lower half of a byte."""
    content = _whole_numbers(tensor, parts[0]).astype(np.uint8) if tensor.form == VARINTS else parts[0]
    numbers = unpacked(content, 4)[: int(np.prod(tensor.shape))].reshape(tensor.shape)
    return (numbers << 4).view(np.int8) >> 4 if HALVES[tensor.kind] else numbers


def _whole_numbers(tensor: OnnxTensor, content: Array) -> Array:
    """Return the numbers of a packed list, each of seven bits a byte, the lowest first; a byte below 128 ends one."""
    ends = np.flatnonzero(content < 128)
    wanted = tensor.size if tensor.kind in HALVES else int(np.prod(tensor.shape))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends + 1 - starts
    if len(ends) != wanted or (wanted and (lengths.max() > 10 or ends[-1] != len(content) - 1)):
        raise CheckpointError(f"{tensor.name} holds {len(ends)} of {wanted} numbers; have the ONNX file saved again")
    numbers = np.zeros(wanted, np.uint64)
    for place in range(int(lengths.max()) if wanted else 0):
        longer = lengths > place
        bits = content[starts[longer] + place].astype(np.uint64) & np.uint64(127)
        numbers[longer] |= bits << np.uint64(7 * place)
    return numbers.view(np.int64)
