"""A matrix is named by what the exporter left of its module; what cannot be told is counted, and never guessed."""

import itertools
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_lineage.checkpoint.onnx.weights import collect_weights
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests import onnx_models
from tests.checkpoint.onnx.test_values import graph_of, read

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)

SCOPES = "pkg.torch.onnx.name_scopes"


def graph(nodes, outputs=("y",), **tensors):
    """A graph; `__` in the name of a tensor stands for a dot."""
    held = [
        numpy_helper.from_array(np.asarray(numbers), name.replace("__", "."))
        for name, numbers in {"w": MATRIX, **tensors}.items()
    ]
    outs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    return graph_of(helper.make_model(helper.make_graph(nodes, "g", [], outs, held)))


def matmul(weight="w", name="", to="y", scopes=None, of="x"):
    node = helper.make_node("MatMul", [of, weight], [to], name=name)
    if scopes:
        entry = node.metadata_props.add()
        entry.key, entry.value = SCOPES, str(scopes)
    return node


def names(found):
    return [*collect_weights(found).matrices]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/encoder/layer.0/attention/self/query/MatMul", "encoder.layer.0.attention.self.query.weight"),
        ("/model/model.0/auto_model/layer.0/dense/MatMul", "model.0.auto_model.layer.0.dense.weight"),
        ("/model/layers.0/attn/q_proj/MatMul_Q4", "model.layers.0.attn.q_proj.weight"),
    ],
)  # fmt: skip
def test_the_name_of_an_operation_tells_the_module(path, expected):
    assert names(graph([matmul(name=path)])) == [expected]


@pytest.mark.parametrize("own", ["weight", "weight_quantized", "MatMul.weight", "weight_DQ_Q4", "weight_Q4G32"])
def test_a_name_of_its_own_counts_first(own):
    own = f"h.0.mlp.{own}"
    found = graph([matmul(own, "/another/module/MatMul")], **{own.replace(".", "__"): MATRIX})
    assert names(found) == ["h.0.mlp.weight"]


def test_the_metadata_of_pytorch_tell_the_module():
    assert names(graph([matmul(scopes=["", "model", "model.up_proj", "linear"])])) == ["model.up_proj.weight"]
    assert collect_weights(graph([matmul(scopes=["linear"])])).nameless == 1


@pytest.mark.parametrize("order", [("p", "up.bias"), ("up.bias", "p")])
def test_the_bias_that_is_added_tells_the_module(order):
    added = helper.make_node("Add", order, ["y"])
    assert names(graph([matmul(to="p"), added], up__bias=np.ones(3, np.float32))) == ["up.weight"]


def test_a_bias_may_follow_further_on_or_stand_in_the_operation():
    plain, ones = matmul(to="p"), np.ones(3, np.float32)
    norm = ["x", "p", "n.weight", "n.bias", "up.bias"]
    for nodes in (
        [plain, helper.make_node("Cast", ["p"], ["c"], to=1), helper.make_node("Add", ["c", "up.bias"], ["y"])],
        [helper.make_node("Gemm", ["x", "w", "up.bias"], ["y"])],
        [plain, helper.make_node("BiasGelu", ["p", "up.bias"], ["y"], domain="com.microsoft")],
        [plain, helper.make_node("SkipLayerNormalization", norm, ["y"], domain="com.microsoft")],
    ):
        found = graph(nodes, up__bias=ones, n__weight=ones, n__bias=ones)
        assert names(found) == ["up.weight"], nodes[-1].op_type


@pytest.mark.parametrize(("kind", "inputs"), [("Add", ["p", "other"]), ("Add", ["p", "long.bias"]), ("Relu", ["p"])])
def test_what_is_no_bias_tells_nothing(kind, inputs):
    vectors = {"other": np.ones(3, np.float32), "long__bias": np.ones(4, np.float32)}
    found = collect_weights(graph([matmul(to="p"), helper.make_node(kind, inputs, ["y"])], **vectors))
    assert (found.matrices, found.nameless) == ({}, 1)


def test_what_leads_to_no_output_is_no_weight():
    nodes = [matmul("a.weight", to="dead"), matmul("b.weight")]
    found = collect_weights(graph(nodes, a__weight=MATRIX, b__weight=MATRIX, c__weight=MATRIX))
    assert ([*found.matrices], [*found.others]) == (["b.weight"], [])


def test_graphs_within_a_graph_count_where_they_lead_to_an_output():
    inner = helper.make_graph([matmul("a.weight", to="i")], "b", [], [helper.make_empty_tensor_value_info("i")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert names(graph([node], a__weight=MATRIX)) == ["a.weight"]


def test_two_matrices_of_one_name_are_refused_and_one_used_twice_is_not():
    twice = [matmul("a.weight", to="p"), matmul("a.weight", of="p")]
    assert names(graph(twice, a__weight=MATRIX)) == ["a.weight"]
    other = [matmul("w", "/a/MatMul", to="p"), matmul("v", "/a/MatMul", of="p")]
    with pytest.raises(CheckpointError, match=r"two matrices of the ONNX graph are a\.weight"):
        collect_weights(graph(other, v=MATRIX))


def test_gains_that_are_equal_and_stored_once_have_the_names_of_all_modules():
    gain = np.ones(3, np.float32)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "a.norm.weight"], ["p"], name="/a/norm/LayerNormalization"),
        helper.make_node("LayerNormalization", ["p", "a.norm.weight"], ["q"], name="/b/norm/LayerNormalization"),
        helper.make_node("LayerNormalization", ["q", "onnx::Mul_7"], ["y"], name="/c/norm/LayerNormalization"),
    ]
    found = collect_weights(graph(nodes, a__norm__weight=gain, **{"onnx::Mul_7": gain})).others
    assert {name: info.parts for name, info in found.items()} == {
        "a.norm.weight": ("a.norm.weight",),
        "b.norm.weight": ("a.norm.weight",),
        "c.norm.weight": ("onnx::Mul_7",),
    }


HEADS = {(1, 7, 3, 1): 3, (0, 0, -1, 1): 3, (0, 0, 3, -1): 3, (0, 0, 1, 3): 1}
NO_HEADS = [(0, 0, 2, 2), (7, 3), (0, 0, 3, 0), (0, 0, -1, -1)]


@pytest.mark.parametrize(("shape", "heads"), (HEADS | dict.fromkeys(NO_HEADS)).items())
def test_a_reshape_tells_the_heads(shape, heads):
    nodes = [matmul("a.weight", to="p"), helper.make_node("Reshape", ["p", "s"], ["y"])]
    assert collect_weights(graph(nodes, a__weight=MATRIX, s=np.array(shape))).heads == heads
    if len(shape) == 4:
        joined = [nodes[0], helper.make_node("Concat", ["b", "l", "h", "d"], ["s"], axis=0), nodes[1]]
        parts = {name: np.array([number]) for name, number in zip("hd", shape[2:], strict=True)}
        assert collect_weights(graph(joined, a__weight=MATRIX, **parts)).heads == heads


def many_users(count=3000):
    """Every product gives out one value, which as many operations use."""
    nodes = [matmul(to="p") for _ in range(count)]
    return [*nodes, *(helper.make_node("Add", ["p", "x"], ["y"]) for _ in range(count))]


def many_names(count=20_000):
    names = [f"n{number}" for number in range(count)]
    return [helper.make_node("Mul", names, [*names, "y"]), helper.make_node("Neg", names, names)]


def long_names(count=60):
    return [matmul(f"a.{'_Q4' * 1000}{number}!", to="y") for number in range(count)]


@pytest.mark.parametrize("make", [many_users, many_names, long_names])
def test_a_graph_that_is_made_to_take_long_does_not(make):
    nodes = make()
    begun = time.process_time()
    names(graph(nodes))
    assert time.process_time() - begun < 5


ROWS, COLUMNS = 24, 40
"""Of the matrix (out, in)."""


def product(kind="MatMul", bias=False, **attributes):
    """A model with one product, its matrix random."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((COLUMNS, ROWS)).astype(np.float32)
    tensors = [numpy_helper.from_array(matrix.T.copy() if attributes.get("transB") else matrix, "up.weight")]
    nodes = [helper.make_node(kind, ["x", "up.weight"], ["y"], name="/up/MatMul", **attributes)]
    if bias:
        tensors.append(numpy_helper.from_array(random.standard_normal(ROWS).astype(np.float32), "up.bias"))
        nodes[0].input.append("up.bias")
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", COLUMNS])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", ROWS])
    graph = helper.make_graph(nodes, "g", [shape], [out], tensors)
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def run(model, x):
    """What ONNX Runtime makes of it, without the optimizations that would fuse anything."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def multiplied(model, zero=0.0):
    """The matrix (out, in) that it multiplies with, as the results for the unit vectors show it."""
    return (run(model, np.eye(COLUMNS, dtype=np.float32)) - run(model, np.zeros((1, COLUMNS), np.float32))).T


def matrix(model, folder):
    """The matrix as it is read, under its name."""
    weights = collect_weights(graph_of(model))
    assert (list(weights.matrices), weights.nameless) == (["up.weight"], 0)
    return read(model, weights.matrices["up.weight"], folder)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1}), ("Gemm", {"alpha": 0.5, "bias": True})],
)
def test_a_float_matrix_is_turned_by_its_operation(kind, attributes, tmp_path):
    model = product(kind, **attributes)
    found = matrix(model, tmp_path)
    assert found.shape == (ROWS, COLUMNS)
    np.testing.assert_allclose(found, multiplied(model), rtol=1e-5, atol=1e-6)


EITHER = (True, False)
IN_BLOCKS = [(2, True, 32, False), *itertools.product((4, 8), EITHER, (16, 32), (False,))]
IN_BLOCKS += itertools.product((4,), EITHER, (16, 32), (True,))


@pytest.mark.parametrize(("bits", "symmetric", "size", "qdq"), IN_BLOCKS)
def test_blocks_are_decoded_as_onnx_runtime_does(bits, symmetric, size, qdq, tmp_path):
    onnx.save(product(), tmp_path / "plain.onnx")
    file = onnx_models.blocks(tmp_path / "plain.onnx", tmp_path / "q.onnx", bits, symmetric, size, qdq)
    model = onnx.load(file)
    assert {node.op_type for node in model.graph.node} & {"MatMulNBits", "DequantizeLinear"}
    np.testing.assert_allclose(matrix(model, tmp_path), multiplied(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("by_channel", [True, False])
def test_integers_are_decoded_as_onnx_runtime_does(kind, by_channel, tmp_path):
    onnx.save(product(), tmp_path / "plain.onnx")
    model = onnx.load(onnx_models.dynamic(tmp_path / "plain.onnx", tmp_path / "q.onnx", kind, by_channel))
    assert "MatMulInteger" in {node.op_type for node in model.graph.node}
    np.testing.assert_allclose(matrix(model, tmp_path), multiplied(model), rtol=1e-4, atol=1e-5)


def quantized(kind, inputs, domain="com.microsoft"):
    """One operation on a matrix of eight bits with a zero point of 3 and a scale of 0.5."""
    numbers = np.random.default_rng(1).integers(-20, 20, (COLUMNS, ROWS)).astype(np.int8)
    tensors = {
        "w": numbers, "ws": np.float32(0.5), "wz": np.int8(3), "xs": np.float32(0.25), "xz": np.uint8(0),
        "ys": np.float32(0.125), "yz": np.int8(0), "b": np.ones(ROWS, np.float32),
    }  # fmt: skip
    held = [numpy_helper.from_array(np.asarray(tensors[name]), name) for name in inputs if name in tensors]
    nodes = [helper.make_node(kind, inputs, ["y"], name="/up/MatMul", domain=domain)]
    if "xq" in inputs:
        nodes.insert(0, helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]))
        more = [name for name in ("xs", "xz") if name not in inputs]
        held += [numpy_helper.from_array(np.asarray(tensors[name]), name) for name in more]
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", COLUMNS])
    graph = helper.make_graph(nodes, "g", [shape], [helper.make_empty_tensor_value_info("y")], held)
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10), (numbers.astype(np.float32) - 3).T * 0.5


@pytest.mark.parametrize(
    ("kind", "inputs", "domain"),
    [
        ("DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "b"], "com.microsoft"),
        ("MatMulIntegerToFloat", ["xq", "w", "xs", "ws", "xz", "wz"], "com.microsoft"),
        ("QLinearMatMul", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ""),
    ],
)
def test_fused_products_of_integers_are_decoded(kind, inputs, domain, tmp_path):
    model, expected = quantized(kind, inputs, domain)
    np.testing.assert_array_equal(matrix(model, tmp_path), expected)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("MatMulNBits", {"K": 40, "N": 24, "bits": 5, "block_size": 32}, "N, K, bits and block_size"),
        ("MatMulNBits", {"K": -1, "N": 24, "bits": 4, "block_size": 32}, "N, K, bits and block_size"),
        ("MatMulNBits", {"K": 2**40, "N": 2**40, "bits": 4, "block_size": 32}, "MatMulNBits without its blocks"),
        ("MatMulNBits", {}, "N, K, bits and block_size"),
        ("MatMulInteger", {}, "the result of MatMulInteger is not multiplied"),
        ("DynamicQuantizeMatMul", {}, "in an invalid way"),
    ],
)
def test_a_product_that_cannot_be_is_refused(kind, attributes, message):
    model = product()
    node = model.graph.node[0]
    node.op_type = kind
    node.input.extend(["up.weight"] if kind == "MatMulNBits" else [])
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    with pytest.raises(CheckpointError, match=message):
        collect_weights(graph_of(model))


def test_fused_weights_and_columns_in_another_order_are_not_read():
    model = product()
    node = model.graph.node[0]
    node.op_type, node.domain = "Attention", "com.microsoft"
    with pytest.raises(NothingToCompare, match="the operation Attention, whose fused weights"):
        collect_weights(graph_of(model))
    node.op_type = "MatMulNBits"
    node.input.extend(["up.weight", "", "up.weight"])
    with pytest.raises(NothingToCompare, match="orders columns by g_idx"):
        collect_weights(graph_of(model))


@pytest.mark.parametrize(
    ("place", "numbers"),
    [(1, np.ones((24, 2, 16), np.float32)), (3, np.ones((24, 1), np.float32)), (3, np.ones((24, 2), np.int64))],
)
def test_numbers_of_another_kind_than_blocks_have_are_refused_where_they_are_read(place, numbers, tmp_path):
    """Their kinds are not looked at before: what cannot be decoded is our error, whatever NumPy says of it."""
    onnx.save(product(), tmp_path / "plain.onnx")
    model = onnx.load(onnx_models.blocks(tmp_path / "plain.onnx", tmp_path / "q.onnx", symmetric=False))
    node = next(node for node in model.graph.node if node.op_type == "MatMulNBits")
    (held,) = (tensor for tensor in model.graph.initializer if tensor.name == node.input[place])
    held.CopyFrom(numpy_helper.from_array(numbers, held.name))
    if place == 3 and numbers.dtype == np.int64:
        assert np.isfinite(matrix(model, tmp_path)).all()
        return
    with pytest.raises(CheckpointError, match="tensors of the ONNX graph do not fit each other"):
        matrix(model, tmp_path)
