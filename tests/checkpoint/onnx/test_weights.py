"""A matrix is named by what the exporter left of its module; what cannot be told is counted, and never guessed."""

import itertools
import time
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from hf_lineage.checkpoint.onnx.weights import collect_weights
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests import onnx_models
from tests.checkpoint.onnx.test_values import graph_of, model, read

MATRIX, ONES = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
MICROSOFT = "com.microsoft"
node = helper.make_node
OWN = ("weight", "weight_quantized", "MatMul.weight", "weight_DQ_Q4", "weight_Q4G32")
HEADS: dict[tuple[int, ...], int | None] = {(1, 7, 3, 1): 3, (0, 0, -1, 1): 3, (0, 0, 3, -1): 3, (0, 0, 1, 3): 1}
HEADS |= dict.fromkeys([(0, 0, 2, 2), (7, 3), (0, 0, 3, 0), (0, 0, -1, -1)])
NAMES = [f"n{number}" for number in range(20_000)]
MANY_NAMES = [node("Mul", NAMES, [*NAMES, "y"]), node("Neg", NAMES, NAMES)]
ROWS, COLUMNS = 24, 40
"""Of the matrix (out, in)."""
EITHER = (True, False)
IN_BLOCKS = [(2, True, 32, False), *itertools.product((4, 8), EITHER, (16, 32), (False,))]
IN_BLOCKS += itertools.product((4,), EITHER, (16, 32), (True,))
QUANTIZED = [
    *(partial(onnx_models.blocks, bits=n, symmetric=same, size=size, qdq=qdq) for n, same, size, qdq in IN_BLOCKS),
    *(partial(onnx_models.dynamic, kind=kind, by_channel=by) for kind in ("QInt8", "QUInt8") for by in EITHER),
]
NO_BLOCKS, BLOCKS = "N, K, bits and block_size", ("up.weight",)
SIZES = {"K": 40, "N": 24, "bits": 4, "block_size": 32}
NAMED = [
    ({"name": "/encoder/layer.0/self/query/MatMul"}, "encoder.layer.0.self.query.weight"),
    ({"name": "/model/model.0/auto_model/layer.0/dense/MatMul"}, "model.0.auto_model.layer.0.dense.weight"),
    ({"name": "/model/layers.0/attn/q_proj/MatMul_Q4"}, "model.layers.0.attn.q_proj.weight"),
    ({"scopes": ["", "model", "model.up_proj", "linear"]}, "model.up_proj.weight"),
    *(({"name": "/another/module/MatMul", "weight": f"h.0.mlp.{own}"}, "h.0.mlp.weight") for own in OWN),
]
FUSED = [
    ("DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "b"], MICROSOFT),
    ("MatMulIntegerToFloat", ["xq", "w", "xs", "ws", "xz", "wz"], MICROSOFT),
    ("QLinearMatMul", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ""),
]
UNREADABLE = [
    *(("MatMulNBits", BLOCKS, SIZES | odd, NO_BLOCKS) for odd in ({"bits": 5}, {"K": -1})),
    ("MatMulNBits", BLOCKS, SIZES | {"K": 2**40, "N": 2**40}, "MatMulNBits without its blocks"),
    ("MatMulNBits", BLOCKS, {}, NO_BLOCKS),
    ("MatMulInteger", (), {}, "the result of MatMulInteger is not multiplied"),
    ("DynamicQuantizeMatMul", (), {}, "in an invalid way"),
    ("Attention", (), {}, "the operation Attention, whose fused weights"),
    ("MatMulNBits", (*BLOCKS, "", *BLOCKS), {}, "orders columns by g_idx"),
]


def graph(nodes, **tensors):
    return graph_of(model(nodes, **{"w": MATRIX, **tensors}))


def matmul(weight="w", name="", to="y", scopes=None, of="x"):
    made = node("MatMul", [of, weight], [to], name=name)
    if scopes:
        entry = made.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", str(scopes)
    return made


def names(found):
    return [*collect_weights(found).matrices]


@pytest.mark.parametrize(("operation", "expected"), NAMED)
def test_a_name_of_its_own_or_else_that_of_the_operation_tells_the_module(operation, expected):
    own = operation.get("weight", "w").replace(".", "__")
    assert names(graph([matmul(**operation)], **{own: MATRIX})) == [expected]


@pytest.mark.parametrize(
    "nodes",
    [
        [matmul(to="p"), node("Add", ["p", "up.bias"], ["y"])],
        [matmul(to="p"), node("Add", ["up.bias", "p"], ["y"])],
        [matmul(to="p"), node("Cast", ["p"], ["c"], to=1), node("Add", ["c", "up.bias"], ["y"])],
        [node("Gemm", ["x", "w", "up.bias"], ["y"])],
        [matmul(to="p"), node("BiasGelu", ["p", "up.bias"], ["y"], domain=MICROSOFT)],
        [matmul(to="p"), node("SkipLayerNormalization", ["x", "p", "n", "n", "up.bias"], ["y"], domain=MICROSOFT)],
        [matmul(scopes=["linear"])],
        *([matmul(to="p"), node("Add", ["p", other], ["y"])] for other in ("other", "long.bias")),
        [matmul(to="p"), node("Relu", ["p"], ["y"])],
    ],
)
def test_the_bias_that_is_added_in_the_operation_or_further_on_tells_the_module(nodes):
    found = collect_weights(graph(nodes, up__bias=ONES, n=ONES, other=ONES, long__bias=np.ones(4, np.float32)))
    tells = any("up.bias" in made.input for made in nodes)
    assert ([*found.matrices], found.nameless) == (["up.weight"] if tells else [], 0 if tells else 1)


def test_what_leads_to_an_output_is_a_weight_and_two_of_one_name_are_refused():
    nodes = [matmul("a.weight", to="dead"), matmul("b.weight")]
    found = collect_weights(graph(nodes, a__weight=MATRIX, b__weight=MATRIX, c__weight=MATRIX))
    assert ([*found.matrices], [*found.others]) == (["b.weight"], [])
    inner = helper.make_graph([matmul("a.weight", to="i")], "b", [], [helper.make_empty_tensor_value_info("i")])
    branch = node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert names(graph([branch], a__weight=MATRIX)) == ["a.weight"]
    twice = [matmul("a.weight", to="p"), matmul("a.weight", of="p")]
    assert names(graph(twice, a__weight=MATRIX)) == ["a.weight"]
    other = [matmul("w", "/a/MatMul", to="p"), matmul("v", "/a/MatMul", of="p")]
    with pytest.raises(CheckpointError, match=r"two matrices of the ONNX graph are a\.weight"):
        collect_weights(graph(other, v=MATRIX))


def test_gains_that_are_equal_and_stored_once_have_the_names_of_all_modules():
    chain = {"a": ("x", "a.norm.weight", "p"), "b": ("p", "a.norm.weight", "q"), "c": ("q", "onnx::Mul_7", "y")}
    nodes = [
        node("LayerNormalization", [of, gain], [to], name=f"/{module}/norm/LayerNormalization")
        for module, (of, gain, to) in chain.items()
    ]
    found = collect_weights(graph(nodes, a__norm__weight=ONES, **{"onnx::Mul_7": ONES})).others
    wanted = {f"{module}.norm.weight": (gain,) for module, (_, gain, _) in chain.items()}
    assert {name: info.parts for name, info in found.items()} == wanted


@pytest.mark.parametrize(("shape", "heads"), HEADS.items())
def test_a_reshape_tells_the_heads(shape, heads):
    nodes = [matmul("a.weight", to="p"), node("Reshape", ["p", "s"], ["y"])]
    assert collect_weights(graph(nodes, a__weight=MATRIX, s=np.array(shape))).heads == heads
    if len(shape) == 4:
        joined = [nodes[0], node("Concat", ["b", "l", "h", "d"], ["s"], axis=0), nodes[1]]
        parts = {name: np.array([number]) for name, number in zip("hd", shape[2:], strict=True)}
        assert collect_weights(graph(joined, a__weight=MATRIX, **parts)).heads == heads


USERS = [matmul(to="p"), node("Add", ["p", "x"], ["y"])] * 3000
"""Every product gives out one value, which as many operations use."""
LONG_NAMES = [matmul(f"a.{'_Q4' * 1000}{number}!", to="y") for number in range(60)]


@pytest.mark.parametrize("nodes", [USERS, MANY_NAMES, LONG_NAMES], ids=["users", "names", "long names"])
def test_a_graph_that_is_made_to_take_long_does_not(nodes):
    found = graph(nodes)
    begun = time.process_time()
    names(found)
    assert time.process_time() - begun < 5


def product(kind="MatMul", bias=False, **attributes):
    random = np.random.default_rng(0)
    matrix = random.standard_normal((COLUMNS, ROWS)).astype(np.float32)
    tensors = {"up__weight": matrix.T.copy() if attributes.get("transB") else matrix}
    tensors |= {"up__bias": random.standard_normal(ROWS).astype(np.float32)} if bias else {}
    inputs = ["x", *(name.replace("__", ".") for name in tensors)]
    return model([node(kind, inputs, ["y"], name="/up/MatMul", **attributes)], **tensors)


def assert_decoded(model, folder):
    """The matrix (out, in) as it is read is what ONNX Runtime multiplies with, as the results for unit vectors show."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ones, zeros = np.eye(COLUMNS, dtype=np.float32), np.zeros((1, COLUMNS), np.float32)
    multiplied = (session.run(None, {"x": ones})[0] - session.run(None, {"x": zeros})[0]).T
    np.testing.assert_allclose(matrix(model, folder), multiplied, rtol=1e-4, atol=1e-5, strict=True)


def matrix(model, folder):
    weights = collect_weights(graph_of(model))
    assert (list(weights.matrices), weights.nameless) == (["up.weight"], 0)
    return read(model, weights.matrices["up.weight"], folder)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1}), ("Gemm", {"alpha": 0.5, "bias": True})],
)
def test_a_float_matrix_is_turned_by_its_operation(kind, attributes, tmp_path):
    assert_decoded(product(kind, **attributes), tmp_path)


@pytest.fixture
def plain(tmp_path):
    onnx.save(product(), tmp_path / "plain.onnx")
    return tmp_path / "plain.onnx"


@pytest.mark.parametrize("quantize", QUANTIZED)
def test_quantized_matrices_are_decoded_as_onnx_runtime_does(quantize, plain, tmp_path):
    model = onnx.load(quantize(plain, tmp_path / "q.onnx"))
    assert {node.op_type for node in model.graph.node} & {"MatMulNBits", "DequantizeLinear", "MatMulInteger"}
    assert_decoded(model, tmp_path)


@pytest.mark.parametrize(("kind", "inputs", "domain"), FUSED)
def test_fused_products_of_integers_are_decoded(kind, inputs, domain, tmp_path):
    """One operation on a matrix of eight bits with a zero point of 3 and a scale of 0.5."""
    numbers = np.random.default_rng(1).integers(-20, 20, (COLUMNS, ROWS)).astype(np.int8)
    tensors = {"w": numbers, "ws": np.float32(0.5), "wz": np.int8(3), "xs": np.float32(0.25), "xz": np.uint8(0)}
    tensors |= {"ys": np.float32(0.125), "yz": np.int8(0), "b": np.ones(ROWS, np.float32)}
    nodes = [node("QuantizeLinear", ["x", "xs", "xz"], ["xq"])] if "xq" in inputs else []
    nodes.append(node(kind, inputs, ["y"], name="/up/MatMul", domain=domain))
    used = {name for made in nodes for name in made.input}
    made = model(nodes, **{name: value for name, value in tensors.items() if name in used})
    np.testing.assert_array_equal(matrix(made, tmp_path), (numbers.astype(np.float32) - 3).T * 0.5)


@pytest.mark.parametrize(("kind", "more", "attributes", "message"), UNREADABLE)
def test_a_product_that_cannot_be_or_is_fused_or_ordered_otherwise_is_refused(kind, more, attributes, message):
    inputs, fused = ["x", "up.weight", *more], "fused" in message or "g_idx" in message
    made = node(kind, inputs, ["y"], name="/up/MatMul", domain=MICROSOFT if fused else "", **attributes)
    with pytest.raises(NothingToCompare if fused else CheckpointError, match=message):
        collect_weights(graph([made], up__weight=MATRIX))


@pytest.mark.parametrize(
    ("place", "numbers"),
    [(1, np.ones((24, 2, 16), np.float32)), (3, np.ones((24, 1), np.float32)), (3, np.ones((24, 2), np.int64))],
)
def test_numbers_of_another_kind_than_blocks_have_are_refused_where_they_are_read(place, numbers, plain, tmp_path):
    """Their kinds are not looked at before: what cannot be decoded is our error, whatever NumPy says of it."""
    model = onnx.load(onnx_models.blocks(plain, tmp_path / "q.onnx", symmetric=False))
    node = next(node for node in model.graph.node if node.op_type == "MatMulNBits")
    (held,) = (tensor for tensor in model.graph.initializer if tensor.name == node.input[place])
    held.CopyFrom(numpy_helper.from_array(numbers, held.name))
    if numbers.dtype == np.int64:
        assert np.isfinite(matrix(model, tmp_path)).all()
        return
    with pytest.raises(CheckpointError, match="tensors of the graph do not fit each other"):
        matrix(model, tmp_path)
