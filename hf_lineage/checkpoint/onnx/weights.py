"""The weights of an ONNX graph by the names of their modules, and the matrices that it multiplies with.

The operation tells the layout of its matrix (ONNX Runtime's `docs/ContribOperators.md`). A matrix has the name that the
exporter left, or that of a module: in the operation's name, in PyTorch's metadata, or in that of the bias added to it.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hf_lineage.checkpoint.onnx.header import OnnxGraph, OnnxNode
from hf_lineage.checkpoint.onnx.values import OPERATIONS, Values, affine, blocks, combine, transpose
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare, printable

INTEGERS: dict[str, tuple[int, int | None, int]] = {"MatMulInteger": (1, None, 3), "MatMulIntegerToFloat": (1, 3, 5)}
INTEGERS |= {"DynamicQuantizeMatMul": (1, 2, 3), "QLinearMatMul": (3, 4, 5)}
"""Operation -> numbers of the inputs that are the matrix, its scale (None where it comes later) and its zero point."""
PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul", "FusedGemm", "MatMulNBits", *INTEGERS})  # multiply with a matrix
OWN = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")  # the name of a parameter in PyTorch
ADDED = re.compile(
    r"(?:_DequantizeLinear_Output|_output|_dequantized|_quantized|_quant|_transposed|_DQ|_Q[248][A-Za-z0-9]*|_q)$"
)  # suffixes that quantizers add to it, perhaps several times; names are hostile, so no repetition is nested
FUSED = frozenset(
    {"Attention", "QAttention", "PackedAttention", "LongformerAttention", "DecoderAttention", "MoE", "QMoE", "GatedMLP"}
    | {"MatMulBnb4", "QOrderedMatMul", "QOrderedAttention", "SparseAttention", "MatMulFpQ4", "QLinearConv"}
)
BIASES = {"Add": (0, 1), "BiasGelu": (1,), "FastGelu": (1,), "BiasAdd": (1,), "SkipLayerNormalization": (4,)}
"""Operations that add a bias, each with the inputs that may be it."""
NORMS = ("LayerNormalization", "SimplifiedLayerNormalization")  # their second and third inputs are a gain and a bias
AFTER = ("Cast", "DequantizeLinear", "Mul", "QuantizeLinear", "Reshape")  # may stand between a product and its bias
MOST_BIAS_USERS, MOST_SCALE_USERS = 64, 8  # users of a product that are searched for its bias or scale


@dataclass
class Weights:
    """The weights of a graph by name."""

    matrices: dict[str, TensorInfo] = field(default_factory=dict)  # those that are multiplied with, each as (out, in)
    others: dict[str, TensorInfo] = field(default_factory=dict)  # gains, biases and embeddings, as they are stored
    nameless: int = 0  # matrices whose place in the model is unknown
    heads: int | None = None  # the most heads into which a product is split; None if none is split


def collect_weights(graph: OnnxGraph) -> Weights:
    """Return the weights of a graph; NothingToCompare for a form that is not read, CheckpointError for damage."""
    search = _Search(graph)
    for node in search.living():
        if node.domain not in ("", "ai.onnx") and node.kind in FUSED:
            what = f"the operation {node.kind}, whose fused weights hf-lineage cannot separate"
            raise NothingToCompare(f"the ONNX graph has {what}; check a file without optimizations")
        if not (node.kind in OPERATIONS and all(search.values.find(name) for name in node.inputs if name)):
            search.keep(node)
    return search.weights


class _Search:
    def __init__(self, graph: OnnxGraph) -> None:
        self._graph, self.values, self.weights = graph, Values(graph), Weights()
        self._users: dict[str, list[OnnxNode]] = defaultdict(list)
        for node in graph.nodes:
            for name in node.inputs:
                self._users[name].append(node)

    def living(self) -> Iterator[OnnxNode]:
        """Yield the nodes on which an output depends, in the order of the file."""
        makers: dict[str, list[int]] = defaultdict(list)
        for number, node in enumerate(self._graph.nodes):
            for name in node.outputs:
                makers[name].append(number)
        wanted, living = list(self._graph.outputs), [False] * len(self._graph.nodes)
        while wanted:
            for number in makers.pop(wanted.pop(), ()):
                if not living[number]:
                    living[number] = True
                    wanted += (*self._graph.nodes[number].inputs, *self._graph.nodes[number].inner)
        yield from itertools.compress(self._graph.nodes, living)

    def keep(self, node: OnnxNode) -> None:
        """Keep the weights that one operation takes."""
        place = INTEGERS[node.kind][0] if node.kind in INTEGERS else 1
        try:
            matrix = self._matrix(node, place) if node.kind in PRODUCTS and len(node.inputs) > place else None
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            what = f"{printable(node.inputs[place], 200)} in an invalid way ({error}); do not trust it"
            raise CheckpointError(f"the ONNX graph multiplies with {what}") from None
        if matrix is not None:
            bias, heads = self._after(node, matrix.shape[0])
            module = _module(node) or (bias.removesuffix(".bias") if bias else None)
            name = _own(node.inputs[place]) or (f"{module}.weight" if module else None)
            self.weights.heads = max(filter(None, (heads, self.weights.heads)), default=None)
            if name is None:
                self.weights.nameless += 1
            elif self.weights.matrices.setdefault(name, matrix).parts != matrix.parts:
                raise CheckpointError(f"two matrices of the ONNX graph are {printable(name, 200)}; do not trust it")
        for number, name in enumerate(node.inputs):
            if matrix is None or number > place:
                self._keep_other(node, number, name)

    def _matrix(self, node: OnnxNode, place: int) -> TensorInfo | None:
        known = self.values.find(node.inputs[place])
        if known is None or (len(known.shape) != 2 and node.kind != "MatMulNBits"):
            return None
        if node.kind == "MatMulNBits":
            if any(node.inputs[4:5]):
                raise NothingToCompare("the ONNX graph orders columns by g_idx (MatMulNBits), which is not read")
            return blocks(node, [known, self._constant(node, 2), self._constant(node, 3)])
        if node.kind in INTEGERS:
            _, scale, zero = INTEGERS[node.kind]
            factor = self._scale_after(node) if scale is None else self._constant(node, scale)
            if factor is None:
                raise ValueError("it has no scale")
            return transpose(affine(known, factor, self._constant(node, zero)))
        alpha = float(node.attributes.get("alpha") or 1.0)
        turned = known if node.attributes.get("transB") else transpose(known)
        return turned if alpha == 1 else combine([turned], turned.shape, lambda numbers: numbers * alpha)

    def _constant(self, node: OnnxNode, place: int) -> TensorInfo | None:
        name = node.inputs[place] if place < len(node.inputs) else ""
        if not name:
            return None
        if (info := self.values.find(name)) is None:
            raise ValueError(f"{name[:200]!r} is not a constant")
        return info

    def _scale_after(self, node: OnnxNode) -> TensorInfo:
        results = {*node.outputs}
        users = {name: self._users[name][:MOST_SCALE_USERS] for name in results}
        results |= {output for some in users.values() for user in some for output in user.outputs}
        for user in (user for name in results for user in self._users[name][:MOST_SCALE_USERS] if user.kind == "Mul"):
            makers = [self.values.makers.get(name) for name in user.inputs if name not in results]
            names = [name for maker in makers if maker and maker.kind == "Mul" for name in maker.inputs]
            for name in (*names, *user.inputs):
                if (scale := self.values.find(name)) is not None:
                    return scale
        raise ValueError("the result of MatMulInteger is not multiplied with a scale")

    def _keep_other(self, node: OnnxNode, place: int, name: str) -> None:
        """Keep a tensor under its own name and that of the module which uses it: equal ones may be stored once."""
        info = self.values.find(name) if name else None
        if info is None or not info.shape:
            return
        if node.kind == "Gather" and node.outputs:  # a table: one scale may multiply its rows after the lookup
            users = self._users[node.outputs[0]][:MOST_BIAS_USERS]
            scaled = next((user.inputs[1:3] for user in users if user.kind == "DequantizeLinear"), ())
            scale, zero = (self.values.find(factor) if factor else None for factor in (*scaled, "", "")[:2])
            if scale and all(factor is None or math.prod(factor.shape) == 1 for factor in (scale, zero)):
                info = affine(info, scale, zero)
        own, module = _own(name), _module(node)
        of_a_norm = {1: "weight", 2: "bias"}.get(place) if node.kind in NORMS else None
        kind = own.rpartition(".")[2] if own else of_a_norm
        if module and kind and len(info.shape) == 1:
            self.weights.others.setdefault(f"{module}.{kind}", info)
        if own:
            self.weights.others.setdefault(own, info)

    def _after(self, node: OnnxNode, rows: int) -> tuple[str | None, int | None]:
        """Return the name of the bias of a product of so many rows, and the number of heads that it is split into."""
        bias = next((own for name in node.inputs[2:] if (own := self._bias(name, rows))), None)
        heads, value = None, node.outputs[0] if node.outputs else ""
        for _ in range(4):  # operations up to the bias
            following = None
            for user in self._users[value][:MOST_BIAS_USERS]:
                names = (user.inputs[place] for place in BIASES.get(user.kind, ()) if place < len(user.inputs))
                added = next((own for name in names if (own := self._bias(name, rows))), None)
                bias = bias or added
                heads = heads or (self._heads(user, rows) if user.kind == "Reshape" else None)
                if (added or user.kind in AFTER) and following is None and user.outputs:
                    following = user.outputs[0]
            if following is None:
                break
            value = following
        return bias, heads

    def _bias(self, name: str, rows: int) -> str | None:
        info = self.values.find(name) if name else None
        own = _own(name)
        return own if info is not None and info.shape == (rows,) and own and own.endswith(".bias") else None

    def _heads(self, node: OnnxNode, rows: int) -> int | None:
        shape = self.values.integers(node.inputs[1]) if len(node.inputs) > 1 else ()
        joined = self.values.makers.get(node.inputs[1]) if len(node.inputs) > 1 and not shape else None
        if joined is not None and joined.kind == "Concat" and len(joined.inputs) > 2:
            shape = tuple(number for name in joined.inputs[-2:] for number in self.values.integers(name))
            shape = (0, 0, *shape) if len(shape) == 2 else ()
        if len(shape) != 4:
            return None
        heads, size = shape[2:]
        heads = rows // size if heads == -1 and size > 0 else heads
        size = rows // heads if size == -1 and heads > 0 else size
        return heads if heads > 0 and heads * size == rows else None


def _own(name: str) -> str | None:
    bare = name.replace(".MatMul.", ".")
    for _ in range(3):  # suffixes
        bare = ADDED.sub("", bare)
    return bare if OWN.fullmatch(bare) and not bare.startswith("onnx.") else None


def _module(node: OnnxNode) -> str | None:
    # A path such as /encoder/layer.0/query/MatMul; a list stands beside its entry, as in /model/model.0/auto_model.
    path = node.name.strip("/").split("/")[:-1] if node.name.startswith("/") else []
    parts = [part for part, after in zip(path, [*path[1:], ""], strict=False) if not after.startswith(f"{part}.")]
    module = ".".join(parts) or node.scope
    return module if OWN.fullmatch(f"{module}.weight") else None
