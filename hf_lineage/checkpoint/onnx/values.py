"""Numbers of ONNX tensors, and the values that a graph computes from its constants alone, as its specification says."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Shape
from hf_lineage.checkpoint.onnx.header import KINDS, VARINTS, OnnxGraph, OnnxNode, OnnxTensor
from hf_lineage.checkpoint.tensor import DTYPES, StoredTensor, TensorInfo, single
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.files.safetensors import Stamp

Array = NDArray[Any]
HALVES = {21: False, 22: True}  # the number of a data type of four bits -> whether it has a sign
DEEPEST, MOST_INPUTS = 16, 8  # operations on the way from a constant to a weight, and inputs of each, at most
OPERATIONS = frozenset({"Cast", "DequantizeLinear", "Identity", "Mul", "Sub", "Transpose"})  # before a weight


def locate_constant(tensor: OnnxTensor, file: Path, stamp: Stamp | None) -> StoredTensor:
    """Return a constant as its file holds it: in a number format of NumPy, or as bytes that are decoded later."""
    if tensor.form == VARINTS or tensor.kind not in KINDS:
        return StoredTensor(file, "U8", (tensor.span.length,), tensor.span.start, stamp)
    return StoredTensor(file, KINDS[tensor.kind], tensor.shape, tensor.span.start, stamp)


def constant(tensor: OnnxTensor) -> TensorInfo:
    """Return a constant as a tensor of the model."""
    parts = (tensor.name,)
    if tensor.kind not in KINDS and tensor.kind not in HALVES:
        why = f"is stored as data type {tensor.kind} of ONNX, which hf-lineage cannot read"
        return TensorInfo(tensor.shape, parts, refusal=why)
    if tensor.kind in HALVES or tensor.form == VARINTS:
        return TensorInfo(tensor.shape, parts, partial(_decode, tensor), itemsize=1 if tensor.kind in HALVES else 8)
    return TensorInfo(tensor.shape, parts)


def unpack_bits(content: Array, bits: int) -> Array:
    """Return bytes (..., n) as the whole numbers (..., n * 8 / bits) packed in them, that of the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers: Array = (content[..., None] >> shifts & np.uint8(2**bits - 1)).reshape(*content.shape[:-1], -1)
    return numbers


def _decode(tensor: OnnxTensor, parts: Sequence[Array]) -> Array:
    numbers = _whole_numbers(tensor, parts[0]) if tensor.form == VARINTS else parts[0]
    if tensor.kind in HALVES:
        numbers = unpack_bits(numbers.astype(np.uint8), 4)[: math.prod(tensor.shape)].reshape(tensor.shape)
        return (numbers << 4).view(np.int8) >> 4 if HALVES[tensor.kind] else numbers
    dtype = DTYPES[KINDS[tensor.kind]]
    if dtype.kind not in "iub":  # floats of sixteen bits stand in a list as whole numbers of the same bits
        return numbers.astype(f"u{dtype.itemsize}").view(dtype).reshape(tensor.shape)
    return numbers.astype(dtype).reshape(tensor.shape)


def _whole_numbers(tensor: OnnxTensor, content: Array) -> Array:
    """Return the numbers of a packed list, each of seven bits a byte, the lowest first; a byte below 128 ends one."""
    ends = np.flatnonzero(content < 128)
    wanted = tensor.size if tensor.kind in HALVES else math.prod(tensor.shape)
    lengths = np.diff(ends, prepend=-1)
    if len(ends) != wanted or (wanted and (lengths.max() > 10 or ends[-1] != len(content) - 1)):
        raise CheckpointError(f"{tensor.name} holds {len(ends)} of {wanted} numbers; have the ONNX file saved again")
    numbers = np.zeros(wanted, np.uint64)
    for place in range(lengths.max(initial=0)):
        longer = lengths > place
        bits = content[(ends - lengths + 1 + place)[longer]].astype(np.uint64) & np.uint64(127)
        numbers[longer] |= bits << np.uint64(7 * place)
    return numbers.view(np.int64)


class Values:
    """Finds the values of a graph that depend on constants alone."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._tensors = graph.tensors
        self.makers: dict[str, OnnxNode] = {}  # value -> the node that computes it, the first of several
        for node in graph.nodes:
            for output in node.outputs:
                self.makers.setdefault(output, node)
        self._known: dict[str, TensorInfo | None] = {name: constant(tensor) for name, tensor in graph.tensors.items()}

    def find(self, name: str, depth: int = 0) -> TensorInfo | None:
        """Return a value that depends on constants alone, None for any other; CheckpointError for what cannot be."""
        if name not in self._known:
            node, info = self.makers.get(name), None
            if node and node.kind in OPERATIONS and depth <= DEEPEST and len(node.inputs) <= MOST_INPUTS:
                inputs = [self.find(value, depth + 1) for value in node.inputs if value]
                known = [each for each in inputs if each is not None]
                try:
                    info = _operate(node, known) if known and len(known) == len(inputs) else None
                except (ValueError, IndexError, TypeError, OverflowError) as error:
                    what = f"{printable(node.outputs[0], 200)} in an invalid way ({error}); do not trust it"
                    raise CheckpointError(f"the ONNX graph computes {what}") from None
            self._known[name] = info
        return self._known[name]

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of a short constant of whole numbers; none for any other value."""
        return self._tensors[name].values if name in self._tensors else ()


def combine(inputs: Sequence[TensorInfo], shape: Shape, compute: Callable[..., Array]) -> TensorInfo:
    """Return a tensor that is computed from others, each of whose parts is read once."""
    parts = tuple(dict.fromkeys(part for info in inputs for part in info.parts))
    places = [[parts.index(part) for part in info.parts] for info in inputs]

    def decode(stored: Sequence[Array]) -> Array:
        decoded = [info.decode([stored[place] for place in own]) for info, own in zip(inputs, places, strict=True)]
        try:
            with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
                return compute(*decoded)
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"tensors of the graph do not fit each other ({error}); do not trust it") from None

    refusal = next((info.refusal for info in inputs if info.refusal), "")
    return TensorInfo(shape, parts, decode, itemsize=4, refusal=refusal)


def transpose(info: TensorInfo, order: Sequence[int] = (1, 0)) -> TensorInfo:
    """Return a tensor with its dimensions in another order."""
    if sorted(order) != list(range(len(info.shape))):
        raise ValueError(f"the order {tuple(order)} does not fit {len(info.shape)} dimensions")
    return combine([info], tuple(info.shape[place] for place in order), lambda tensor: tensor.transpose(order))


def affine(
    quantized: TensorInfo, scale: TensorInfo | None, zero: TensorInfo | None, axis: int = -1, block: int = 0
) -> TensorInfo:
    """Return (quantized - zero) scale, with one scale for all, for each index of an axis, or for blocks along it."""
    shape = quantized.shape
    steps = [(change, info) for change, info in ((np.subtract, zero), (np.multiply, scale)) if info is not None]
    spread = [(change, _broadcast_scales(shape, info.shape, axis, block)) for change, info in steps]

    def compute(numbers: Array, *others: Array) -> Array:
        result = single(numbers).copy() if numbers.dtype == np.float32 else single(numbers)
        for (change, broadcast), other in zip(spread, others, strict=True):
            change(result, broadcast(single(other)), out=result)
        return result

    return combine([quantized, *(info for _, info in steps)], shape, compute)


def _broadcast_scales(shape: Shape, from_shape: Shape, axis: int, block: int) -> Callable[[Array], Array]:
    if math.prod(from_shape) == 1:
        return lambda scales: scales.reshape(())
    axis = range(len(shape))[axis]
    if len(from_shape) == 1 and from_shape[0] == shape[axis]:
        return lambda scales: scales.reshape(-1, *[1] * (len(shape) - axis - 1))
    blocks = tuple(-(-length // block) if block and place == axis else length for place, length in enumerate(shape))
    if block > 0 and from_shape == blocks:
        return lambda scales: scales.take(np.arange(shape[axis]) // block, axis)
    if len(from_shape) <= len(shape) and np.broadcast_shapes(shape, from_shape) == shape:
        return lambda scales: scales
    raise ValueError(f"scales of the shape {from_shape} for {shape}")


def blocks(node: OnnxNode, inputs: Sequence[TensorInfo | None]) -> TensorInfo:
    """Return the matrix (out, in) of MatMulNBits: each row in blocks, each of which has a scale and a zero point."""
    rows, columns, bits, size = (node.attributes.get(key, 0) for key in ("N", "K", "bits", "block_size"))
    (quantized, scale, zero), whole = inputs, (rows, columns, bits, size)
    if not all(isinstance(number, int) and number > 0 for number in whole) or bits not in (2, 4, 8) or size > 2**20:
        raise ValueError(f"MatMulNBits with N, K, bits and block_size {whole}")
    count = -(-columns // size)
    packed = -(-count * bits // 8)
    if quantized is None or scale is None or math.prod(quantized.shape) != rows * count * size * bits // 8:
        raise ValueError("MatMulNBits without its blocks")
    if math.prod(scale.shape) != rows * count or (zero and math.prod(zero.shape) not in (rows * packed, rows * count)):
        raise ValueError("MatMulNBits with the wrong number of scales or zero points")

    def compute(content: Array, factors: Array, *zeros: Array) -> Array:
        numbers = single(unpack_bits(content.reshape(rows, -1), bits)).reshape(rows, count, size)
        shift: Any = np.float32(2 ** (bits - 1))
        for points in zeros:  # packed, unless they are floats
            plain = points if points.dtype.itemsize > 1 else unpack_bits(points.reshape(rows, -1), bits)[:, :count]
            shift = single(plain).reshape(rows, count, 1)
        matrix: Array = (numbers - shift) * single(factors).reshape(rows, count, 1)
        return matrix.reshape(rows, -1)[:, :columns]

    return combine([quantized, scale, *([zero] if zero else [])], (rows, columns), compute)


def _operate(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    """Return the result of one of these operations on constants; what Cast rounds is not rounded again."""
    first = inputs[0]
    match node.kind:
        case "DequantizeLinear":
            _, scale, *zero = inputs
            axis, block = (node.attributes.get(key, default) for key, default in (("axis", 1), ("block_size", 0)))
            return affine(first, scale, zero[0] if zero else None, int(axis), int(block))
        case "Mul":
            matrix, scale = sorted(inputs, key=lambda info: math.prod(info.shape), reverse=True)
            return affine(matrix, scale, None)
        case "Sub":
            return affine(first, None, inputs[1])
        case "Transpose":
            return transpose(first, node.attributes.get("perm") or range(len(first.shape))[::-1])
    return first
