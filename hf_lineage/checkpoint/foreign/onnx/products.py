"""The matrices that an ONNX graph multiplies with, each as (out, in).

The layout of a matrix in the file does not show how it is used; the operation that multiplies with it decides. The
operations are those of the ONNX specification and of ONNX Runtime's `docs/ContribOperators.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hf_lineage.checkpoint.foreign.onnx.header import OnnxNode
from hf_lineage.checkpoint.foreign.onnx.values import Values, affine, blocks, combined, transposed
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare, printable

MOST_USERS = 8
"""Operations that use a product and are searched for its scale, at most."""


class Products:
    """Finds the matrix of an operation, given the operations that use each value."""

    def __init__(self, values: Values, users: Mapping[str, Sequence[OnnxNode]]) -> None:
        self._values, self._users = values, users

    def find(self, node: OnnxNode) -> TensorInfo | None:
        """Return the matrix (out, in) that an operation multiplies with; None if it multiplies with none.

        Raise CheckpointError where it does not fit what it is multiplied with, NothingToCompare where it is not read.
        """
        place = place_of(node)
        if node.kind not in PRODUCTS or len(node.inputs) <= place:
            return None
        known = self._values.find(node.inputs[place])
        if known is None or (len(known.shape) != 2 and node.kind != "MatMulNBits"):
            return None
        try:
            return PRODUCTS[node.kind](self, node)
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise CheckpointError(
                f"the ONNX graph multiplies with {printable(node.inputs[place], 200)} in an invalid way ({error}); do "
                "not trust it"
            ) from None

    def product(self, node: OnnxNode) -> TensorInfo:
        """Return the matrix of MatMul, Gemm and FusedMatMul."""
        matrix = self._need(node.inputs[1])
        factor = float(node.attributes.get("alpha") or 1.0)
        turned = matrix if node.attributes.get("transB") else transposed(matrix)
        return turned if factor == 1 else combined([turned], turned.shape, lambda numbers: numbers * factor)

    def blocks(self, node: OnnxNode) -> TensorInfo:
        """Return the matrix of MatMulNBits."""
        if len(node.inputs) > 4 and node.inputs[4]:
            raise NothingToCompare("the ONNX graph orders columns by g_idx (MatMulNBits), which hf-lineage cannot read")
        zero = self._need(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else None
        return blocks(node, [self._need(node.inputs[1]), self._need(node.inputs[2]), zero])

    def quantized(self, node: OnnxNode) -> TensorInfo:
        """Return the matrix of MatMulInteger, whose scale multiplies its result further on, and of its fused forms."""
        place, scale, zero = INTEGERS[node.kind]
        factor = self._scale_after(node) if scale is None else self._need(node.inputs[scale])
        shift = self._values.find(node.inputs[zero]) if len(node.inputs) > zero and node.inputs[zero] else None
        return transposed(affine(self._need(node.inputs[place]), factor, shift))

    def _scale_after(self, node: OnnxNode) -> TensorInfo:
        """Return the scale of the matrix, a factor of the product that multiplies the result of MatMulInteger."""
        results = {*node.outputs}
        results |= {output for name in node.outputs for user in self._after(name) for output in user.outputs}
        for user in (user for name in results for user in self._after(name) if user.kind == "Mul"):
            makers = [self._values.makers.get(name) for name in user.inputs if name not in results]
            names = [name for maker in makers if maker and maker.kind == "Mul" for name in maker.inputs]
            for name in (*names, *user.inputs):
                if (scale := self._values.find(name)) is not None:
                    return scale
        raise ValueError("the result of MatMulInteger is not multiplied with a scale")

    def _after(self, name: str) -> Sequence[OnnxNode]:
        """Return some operations that use a value."""
        return self._users.get(name, ())[:MOST_USERS]

    def _need(self, name: str) -> TensorInfo:
        info = self._values.find(name)
        if info is None:
            raise ValueError(f"{name[:200]!r} is not a constant")
        return info


def place_of(node: OnnxNode) -> int:
    """Return the number of the input of an operation that is the matrix, if it multiplies with one."""
    return INTEGERS[node.kind][0] if node.kind in INTEGERS else 1


INTEGERS: Mapping[str, tuple[int, int | None, int]] = {
    "MatMulInteger": (1, None, 3),
    "MatMulIntegerToFloat": (1, 3, 5),
    "DynamicQuantizeMatMul": (1, 2, 3),
    "QLinearMatMul": (3, 4, 5),
}
"""Operation -> numbers of the inputs that are the matrix, its scale (None where it comes later) and its zero point."""
PRODUCTS: Mapping[str, Callable[[Products, OnnxNode], TensorInfo]] = {
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm"), Products.product),
    **dict.fromkeys(INTEGERS, Products.quantized),
    "MatMulNBits": Products.blocks,
}
"""The operations that multiply with a matrix."""
