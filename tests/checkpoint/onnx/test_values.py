"""What a graph computes from constants alone is what ONNX computes, and is refused where it cannot be computed."""

import io

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from hf_lineage.checkpoint.onnx.header import VARINTS, OnnxTensor, parse
from hf_lineage.checkpoint.onnx.values import Values, constant, locate_constant, unpack_bits
from hf_lineage.checkpoint.tensor import Memory
from hf_lineage.errors import CheckpointError
from tests.checkpoint.onnx.test_header import graph, tensor, varint

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.standard_normal((4, 6)).astype(np.float32)
WHOLE = RANDOM.integers(-8, 8, (4, 6)).astype(np.int8)
LONG_ROWS, ROWS, LESS = np.abs(MATRIX[0]), np.abs(MATRIX[:, 0]), np.abs(MATRIX[:, :2])
CASTS = [helper.make_node("Cast", [one], [other], to=TensorProto.FLOAT) for one, other in ("qf", "zg")]
FLOATS = ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2"]
WHOLE_NUMBERS = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "INT4", "UINT4", "BOOL"]


def graph_of(model):
    content = model.SerializeToString()
    return parse(io.BytesIO(content), len(content))


def read(model, info, folder):
    file = folder / "model.onnx"
    file.write_bytes(model.SerializeToString())
    tensors = graph_of(model).tensors
    return info.decode([locate_constant(tensors[part], file, None).read(Memory()) for part in info.parts])


def model(nodes, **tensors):
    """A model of these nodes; `__` in the name of a tensor stands for a dot."""
    return graph(nodes, [tensor(name.replace("__", "."), numbers) for name, numbers in tensors.items()])


def node(kind, *inputs, to="y", **attributes):
    return helper.make_node(kind, inputs, [to], **attributes)


WITH_ZERO = [*CASTS, node("Sub", "f", "g", to="d"), node("Mul", "d", "s")]
IN_BLOCKS = node("DequantizeLinear", "q", "s", "z", axis=1, block_size=3)


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([node("Identity", "w")], {"w": MATRIX}),
        ([helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)], {"w": MATRIX.astype(np.float16)}),
        ([node("Transpose", "w", perm=[1, 0])], {"w": MATRIX}),
        ([node("Transpose", "w")], {"w": MATRIX}),
        ([node("Transpose", "w", perm=[2, 0, 1])], {"w": MATRIX.reshape(2, 2, 6)}),
        ([node("Mul", "w", "s")], {"w": MATRIX, "s": MATRIX[0]}),
        ([node("Mul", "s", "w")], {"w": MATRIX, "s": MATRIX[:, :1]}),
        ([node("Mul", "w", "w")], {"w": MATRIX}),
        ([node("Mul", "w", "s")], {"w": MATRIX, "s": np.float32(0.5)}),
        (WITH_ZERO, {"q": WHOLE, "z": np.int8(3), "s": LONG_ROWS}),
        ([node("DequantizeLinear", "q", "s")], {"q": WHOLE, "s": np.float32(0.5)}),
        ([node("DequantizeLinear", "q", "s", "z")], {"q": WHOLE, "s": LONG_ROWS, "z": WHOLE[0]}),
        ([node("DequantizeLinear", "q", "s", "z", axis=0)], {"q": WHOLE, "s": ROWS, "z": WHOLE[:, 0]}),
        ([IN_BLOCKS], {"q": WHOLE, "s": LESS, "z": WHOLE[:, :2]}),
    ],
)
def test_a_value_is_what_onnx_computes(nodes, tensors, tmp_path):
    made = model(nodes, **tensors)
    info = Values(graph_of(made)).find("y")
    (expected,) = ReferenceEvaluator(made).run(None, {})
    assert (info.shape, len({*info.parts})) == (expected.shape, len(info.parts)), "each part is read once"
    np.testing.assert_allclose(read(made, info, tmp_path), expected, rtol=1e-6)


def test_what_depends_on_an_input_another_operation_or_itself_is_no_constant():
    nodes = [node("Mul", "w", "x", to="a"), node("Exp", "w", to="b"), node("Identity", "", to="c")]
    circle = [node("Identity", "e", to="d"), node("Identity", "d", to="e")]
    chain = [node("Identity", f"v{number}", to=f"v{number + 1}") for number in range(40)]
    made = model([*nodes, *circle, *chain], w=MATRIX, v0=MATRIX)
    values = Values(graph_of(made))
    assert [values.find(name) for name in ("a", "b", "c", "d", "x", "nobody")] == [None] * 6
    assert (values.integers("w"), values.integers("x")) == ((), ())
    assert values.find("v10") is not None
    assert Values(graph_of(made)).find("v40") is None, "nor what is a long way from one"


@pytest.mark.parametrize(
    ("made", "tensors"),
    [
        (node("Mul", "w", "s"), {"w": MATRIX, "s": MATRIX[:3]}),
        (node("DequantizeLinear", "q", "s"), {"q": WHOLE, "s": MATRIX[:, 0]}),
        (node("DequantizeLinear", "q", "s", axis=7), {"q": WHOLE, "s": MATRIX[0]}),
        (node("DequantizeLinear", "q", "s", block_size=5), {"q": WHOLE, "s": MATRIX[:, :3]}),
        (node("DequantizeLinear", "q"), {"q": WHOLE}),
        (node("DequantizeLinear", "q", "s", axis=[1, 0]), {"q": WHOLE, "s": MATRIX[0]}),
        (node("DequantizeLinear", "q", "s", axis=float("inf")), {"q": WHOLE, "s": MATRIX[0]}),
        *((node("Transpose", "w", perm=perm), {"w": MATRIX}) for perm in (7, [0, 0])),
        (node("Sub", "w", "z"), {"w": MATRIX, "z": MATRIX.reshape(6, 4)}),
        (node("Mul", "w"), {"w": MATRIX}),
        (node("Mul", "s", "e"), {"s": MATRIX[:, :1], "e": MATRIX[:1]}),
    ],
)
def test_tensors_that_do_not_fit_are_refused(made, tensors):
    with pytest.raises(CheckpointError, match="the ONNX graph computes y in an invalid way"):
        Values(graph_of(model([made], **tensors))).find("y")


def test_blocks_larger_than_the_tensor_take_no_memory_and_low_bits_come_first(tmp_path):
    made = model([node("DequantizeLinear", "q", "s", axis=1, block_size=2**40)], q=WHOLE, s=np.abs(MATRIX[:, :1]))
    found = read(made, Values(graph_of(made)).find("y"), tmp_path)
    np.testing.assert_allclose(found, WHOLE * np.abs(MATRIX[:, :1]), rtol=1e-6)
    numbers = {bits: unpack_bits(np.array([0b11100100], np.uint8), bits).tolist() for bits in (2, 4, 8)}
    assert numbers == {2: [0, 1, 2, 3], 4: [0b0100, 0b1110], 8: [0b11100100]}


def test_a_type_that_is_not_read_is_a_reason_and_a_list_that_does_not_fit_damage():
    made = model([node("Transpose", "w")])
    made.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT8E4M3FNUZ, (2, 2), [1.0] * 4))
    assert Values(graph_of(made)).find("y").refusal.startswith("is stored as data type 18 of ONNX")
    for kind in (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT4E2M1):
        info = constant(OnnxTensor("t", (2,), kind))
        assert info.refusal == f"is stored as data type {kind} of ONNX, which hf-lineage cannot read"
    held = OnnxTensor("t", (3,), TensorProto.INT32, VARINTS)
    decode = constant(held).decode
    good = b"".join(map(varint, (1, -1, 300)))
    np.testing.assert_array_equal(decode([np.frombuffer(good, np.uint8)]), [1, -1, 300])
    for content in (good[:-1], good + varint(7), good + b"\x80", b"\x80" * 11 + b"\x01\x02\x03", b""):
        with pytest.raises(CheckpointError, match=r"t holds \d of 3 numbers"):
            decode([np.frombuffer(content, np.uint8)])


@pytest.mark.parametrize("raw", [True, False], ids=["bytes", "lists"])
@pytest.mark.parametrize("kind", FLOATS + WHOLE_NUMBERS)
@pytest.mark.parametrize("shape", [(3, 5), (4,), ()], ids=str)
def test_numbers_are_those_that_onnx_reads(kind, shape, raw, tmp_path):
    random = np.random.default_rng(0)
    size = int(np.prod(shape))
    low = 0 if kind[0] in "UB" else -8
    numbers = random.standard_normal(size) if kind in FLOATS else random.integers(low, 2 if kind == "BOOL" else 8, size)
    held = helper.make_tensor("t", getattr(TensorProto, kind), shape, numbers.tolist())
    if raw:
        held = numpy_helper.from_array(numpy_helper.to_array(held), "t")
    expected = numpy_helper.to_array(held)
    made = graph(tensors=[held])
    info = constant(graph_of(made).tensors["t"])
    found = read(made, info, tmp_path)
    assert (info.parts, info.shape) == (("t",), expected.shape)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
