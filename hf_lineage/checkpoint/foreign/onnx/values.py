"""Values that an ONNX graph computes from its constants alone: its weights, decoded when they are read.

The operations are those of the ONNX specification and, in the domain `com.microsoft`, of ONNX Runtime's
`docs/ContribOperators.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.foreign.onnx.header import OnnxGraph, OnnxNode
from hf_lineage.checkpoint.foreign.onnx.numbers import constant, unpacked
from hf_lineage.checkpoint.tensor import TensorInfo, single
from hf_lineage.errors import CheckpointError, printable

Array = NDArray[Any]
DEEPEST, MOST_INPUTS = 16, 8
"""Operations on the way from a constant to a weight, and inputs of each, at most."""


class Values:
    """Finds the values of a graph that depend on constants alone."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._tensors = graph.tensors
        self.makers: dict[str, OnnxNode] = {}
        """The name of a value -> the node that computes it, the first of several in separate graphs."""
        for node in graph.nodes:
            for output in node.outputs:
                self.makers.setdefault(output, node)
        self._known: dict[str, TensorInfo | None] = {}

    def find(self, name: str, depth: int = 0) -> TensorInfo | None:
        """Return a value that depends on constants alone, None for any other.

        Raise CheckpointError where an operation on it cannot be as the specification says.
        """
        if name not in self._known:
            self._known[name] = self._computed(name, depth)
        return self._known[name]

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of a short constant of whole numbers; none for any other value."""
        return self._tensors[name].values if name in self._tensors else ()

    def _computed(self, name: str, depth: int) -> TensorInfo | None:
        if name in self._tensors:
            return constant(self._tensors[name])
        node = self.makers.get(name)
        if node is None or node.kind not in OPERATIONS or depth > DEEPEST or len(node.inputs) > MOST_INPUTS:
            return None
        inputs = [self.find(value, depth + 1) for value in node.inputs if value]
        known = [info for info in inputs if info is not None]
        try:
            return OPERATIONS[node.kind](node, known) if known and len(known) == len(inputs) else None
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise CheckpointError(
                f"the ONNX graph computes {printable(name, 200)} in an invalid way ({error}); do not trust it"
            ) from None


def combined(
    inputs: Sequence[TensorInfo], shape: tuple[int, ...], compute: Callable[..., Array], refusal: str = ""
) -> TensorInfo:
    """Return a tensor that is computed from others, each of whose parts is read once."""
    parts = tuple(dict.fromkeys(part for info in inputs for part in info.parts))
    places = [[parts.index(part) for part in info.parts] for info in inputs]

    def decode(stored: Sequence[Array]) -> Array:
        decoded = [info.decode([stored[place] for place in own]) for info, own in zip(inputs, places, strict=True)]
        try:
            with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
                return compute(*decoded)
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                f"tensors of the ONNX graph do not fit each other ({error}); do not trust it"
            ) from None

    refusal = next((info.refusal for info in inputs if info.refusal), refusal)
    return TensorInfo(shape, parts, decode, itemsize=4, refusal=refusal)


def transposed(info: TensorInfo, order: Sequence[int] = (1, 0)) -> TensorInfo:
    """Return a tensor with its dimensions in another order."""
    if sorted(order) != list(range(len(info.shape))):
        raise ValueError(f"the order {tuple(order)} does not fit {len(info.shape)} dimensions")
    return combined([info], tuple(info.shape[place] for place in order), lambda tensor: tensor.transpose(order))


def affine(
    quantized: TensorInfo, scale: TensorInfo, zero: TensorInfo | None, axis: int = -1, block: int = 0
) -> TensorInfo:
    """Return (quantized - zero) scale, with one scale for all, for each index of an axis, or for blocks along it."""
    shape = quantized.shape
    spread = [_spread(shape, info.shape, axis, block) for info in (scale, zero) if info is not None]

    def compute(numbers: Array, factors: Array, *zeros: Array) -> Array:
        result = single(numbers).copy() if numbers.dtype == np.float32 else single(numbers)
        for shift in zeros:
            result -= spread[1](single(shift))
        result *= spread[0](single(factors))
        return result

    return combined([quantized, scale, *([zero] if zero else [])], shape, compute)


def _spread(shape: tuple[int, ...], given: tuple[int, ...], axis: int, block: int) -> Callable[[Array], Array]:
    """Return a function that brings the scales of a tensor to a shape that broadcasts with it."""
    if math.prod(given) == 1:
        return lambda scales: scales.reshape(())
    axis = range(len(shape))[axis]
    if len(given) == 1 and given[0] == shape[axis]:
        aligned = tuple(shape[axis] if place == axis else 1 for place in range(len(shape)))
        return lambda scales: scales.reshape(aligned)
    blocks = tuple(-(-length // block) if block and place == axis else length for place, length in enumerate(shape))
    if block > 0 and given == blocks:
        return lambda scales: scales.take(np.arange(shape[axis]) // block, axis)
    if len(given) <= len(shape) and np.broadcast_shapes(shape, given) == shape:
        return lambda scales: scales
    raise ValueError(f"scales of the shape {given} for {shape}")


def blocks(node: OnnxNode, inputs: Sequence[TensorInfo | None]) -> TensorInfo:
    """Return the matrix (out, in) of MatMulNBits: each row in blocks, each of which has a scale and a zero point."""
    rows, columns, bits, size = (node.attributes.get(key, 0) for key in ("N", "K", "bits", "block_size"))
    quantized, scale, zero = inputs
    across = (rows, columns, bits, size)
    if not all(isinstance(number, int) and number > 0 for number in across) or bits not in (2, 4, 8) or size > 2**20:
        raise ValueError(f"MatMulNBits with N, K, bits and block_size {across}")
    count = -(-columns // size)
    packed = -(-count * bits // 8)
    if quantized is None or scale is None or math.prod(quantized.shape) != rows * count * size * bits // 8:
        raise ValueError("MatMulNBits without its blocks")
    if math.prod(scale.shape) != rows * count or (zero and math.prod(zero.shape) not in (rows * packed, rows * count)):
        raise ValueError("MatMulNBits with the wrong number of scales or zero points")

    def compute(content: Array, factors: Array, *zeros: Array) -> Array:
        numbers = single(unpacked(content.reshape(rows, -1), bits)).reshape(rows, count, size)
        shift = _zeros(zeros[0], rows, count, bits) if zeros else np.float32(2 ** (bits - 1))
        matrix: Array = (numbers - shift) * single(factors).reshape(rows, count, 1)
        return matrix.reshape(rows, -1)[:, :columns]

    return combined([quantized, scale, *([zero] if zero else [])], (rows, columns), compute)


def _zeros(stored: Array, rows: int, count: int, bits: int) -> Array:
    """Return the zero points of MatMulNBits (rows, count, 1), packed unless they are floats."""
    if stored.dtype.itemsize > 1:
        return single(stored).reshape(rows, count, 1)
    return single(unpacked(stored.reshape(rows, -1), bits)[:, :count]).reshape(rows, count, 1)


def _dequantized(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    quantized, scale, *zero = inputs
    axis, block = (node.attributes.get(key, default) for key, default in (("axis", 1), ("block_size", 0)))
    return affine(quantized, scale, zero[0] if zero else None, int(axis), int(block))


def _times(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    del node
    matrix, scale = sorted(inputs, key=lambda info: math.prod(info.shape), reverse=True)
    return affine(matrix, scale, None)


def _minus(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    del node
    matrix, zero = inputs
    spread = _spread(matrix.shape, zero.shape, -1, 0)
    return combined(inputs, matrix.shape, lambda numbers, zeros: single(numbers) - spread(single(zeros)))


def _turned(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    (matrix,) = inputs
    return transposed(matrix, node.attributes.get("perm") or range(len(matrix.shape))[::-1])


def _same(node: OnnxNode, inputs: Sequence[TensorInfo]) -> TensorInfo:
    """Return the value itself; what Cast rounds is not rounded again."""
    del node
    return replace(inputs[0])


OPERATIONS: Mapping[str, Callable[[OnnxNode, Sequence[TensorInfo]], TensorInfo]] = {
    "Cast": _same,
    "DequantizeLinear": _dequantized,
    "Identity": _same,
    "Mul": _times,
    "Sub": _minus,
    "Transpose": _turned,
}
"""The operations that stand between a constant and a weight."""
