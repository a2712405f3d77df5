"""A matrix is named by what the exporter left of its module; what cannot be told is counted, and never guessed."""

import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_lineage.checkpoint.foreign.onnx.weights import collect_weights
from hf_lineage.errors import CheckpointError
from tests.checkpoint.foreign.onnx.test_values import graph_of

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


@pytest.mark.parametrize(
    "own",
    [
        "h.0.mlp.weight",
        "h.0.mlp.weight_quantized",
        "h.0.mlp.MatMul.weight",
        "h.0.mlp.weight_DQ_Q4",
        "h.0.mlp.weight_Q4G32",
    ],
)
def test_a_name_of_its_own_counts_first(own):
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
    cast = [
        matmul(to="p"),
        helper.make_node("Cast", ["p"], ["c"], to=1),
        helper.make_node("Add", ["c", "up.bias"], ["y"]),
    ]
    gemm = [helper.make_node("Gemm", ["x", "w", "up.bias"], ["y"])]
    gelu = [matmul(to="p"), helper.make_node("BiasGelu", ["p", "up.bias"], ["y"], domain="com.microsoft")]
    norm = [
        matmul(to="p"),
        helper.make_node(
            "SkipLayerNormalization", ["x", "p", "n.weight", "n.bias", "up.bias"], ["y"], domain="com.microsoft"
        ),
    ]
    for nodes in (cast, gemm, gelu, norm):
        held = {
            "up__bias": np.ones(3, np.float32),
            "n__weight": np.ones(3, np.float32),
            "n__bias": np.zeros(3, np.float32),
        }
        assert names(graph(nodes, **held)) == ["up.weight"], nodes[-1].op_type


@pytest.mark.parametrize(
    "after",
    [
        helper.make_node("Add", ["p", "other"], ["y"]),
        helper.make_node("Add", ["p", "long.bias"], ["y"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ],
)
def test_what_is_no_bias_tells_nothing(after):
    found = collect_weights(
        graph([matmul(to="p"), after], other=np.ones(3, np.float32), long__bias=np.ones(4, np.float32))
    )
    assert (found.matrices, found.nameless) == ({}, 1)


def test_what_leads_to_no_output_is_no_weight():
    found = collect_weights(
        graph([matmul("a.weight", to="dead"), matmul("b.weight")], a__weight=MATRIX, b__weight=MATRIX, c__weight=MATRIX)
    )
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


@pytest.mark.parametrize(
    ("shape", "heads"),
    [
        ([1, 7, 3, 1], 3),
        ([0, 0, -1, 1], 3),
        ([0, 0, 1, 3], 1),
        ([0, 0, 2, 2], None),
        ([7, 3], None),
        ([0, 0, 3, 0], None),
        ([0, 0, 3, -1], 3),
        ([0, 0, -1, -1], None),
    ],
)
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
