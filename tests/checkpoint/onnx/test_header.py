"""ONNX files: messages are read as the encoding says, graphs as by the package onnx, and damage is one clear line."""

import contextlib
import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hf_lineage.checkpoint.foreign_form import HeaderError
from hf_lineage.checkpoint.onnx import header as onnx_header
from hf_lineage.checkpoint.onnx.header import DOUBLES, FLOATS, OUTSIDE, RAW, VARINTS, Reader, Span, parse
from tests.properties import cases

LONGER = "a field is longer than its message;"


def varint(number):
    number &= 2**64 - 1
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes([*content, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def walker(content):
    return Reader(io.BytesIO(content), len(content))


def fields(content):
    reader = walker(content)
    found = reader.fields(reader.whole)
    return [(number, reader.content(value) if isinstance(value, Span) else value) for number, value in found]


def test_numbers_texts_and_what_has_a_fixed_length_are_told_apart():
    content = field(1, 150) + field(2, b"testing") + varint(3 << 3 | 5) + b"\0\0\x80?" + varint(4 << 3 | 1) + bytes(8)
    assert fields(content) == [(1, 150), (2, b"testing"), (3, b"\0\0\x80?"), (4, bytes(8))]
    reader = walker(content)
    assert reader.single(dict(reader.fields(reader.whole))[3]) == 1.0
    for read in (reader.text, reader.content, lambda value: list(reader.fields(value))):
        with pytest.raises(HeaderError, match="a number in place of a text or a message;"):
            read(7)
    with pytest.raises(HeaderError, match="a number has a wrong length;"):
        reader.single(Span(0, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((odd, "a number does not end") for odd in (b"\x80" * 11, b"\x08")),
        *((varint(2 << 3 | 2) + odd, LONGER) for odd in (varint(5) + b"four", varint(2**63))),
        (varint(1 << 3 | 5) + b"abc", LONGER),
        *((varint(1 << 3 | odd), "of another format") for odd in (3, 7)),
    ],
)
def test_a_broken_message_is_one_clear_line(content, message):
    with pytest.raises(HeaderError, match=message):
        fields(content)


def test_there_are_bounds_on_what_is_kept_and_a_file_cut_anywhere_is_our_error(monkeypatch):
    long = walker(bytes(onnx_header.LONGEST_TEXT + 1))
    with pytest.raises(HeaderError, match="has a text of 4097 bytes"):
        long.text(long.whole)
    monkeypatch.setattr(onnx_header, "MOST_FIELDS", 3)
    with pytest.raises(HeaderError, match="more than 3 fields"):
        fields(field(1, 0) * 4)
    monkeypatch.setattr(onnx_header, "LARGEST_TEXT", 5)
    with pytest.raises(HeaderError, match="or too many of them"):
        fields(field(1, b"abc") * 2)
    monkeypatch.undo()
    nodes = [helper.make_node("Neg", ["x"], [f"y{number}"]) for number in range(3)]
    for bound, message in (("MOST_NODES", "more than 2 nodes"), ("MOST_TENSORS", "more than 2 tensors")):
        monkeypatch.setattr(onnx_header, bound, 2)
        with pytest.raises(HeaderError, match=message):
            read(graph(nodes, [tensor(f"t{number}", [1.0]) for number in range(3)] if "TENSORS" in bound else []))
        monkeypatch.undo()
    inner = field(5, field(6, b""))
    for _ in range(20):
        inner = field(1, field(5, field(6, inner)))
    with pytest.raises(HeaderError, match="more than 8 graphs"):
        read(field(7, inner))
    node = helper.make_node("Gemm", ["x", "w"], ["y"], alpha=2.0)
    content = graph([node], [tensor("w", np.ones((2, 2), np.float32))]).SerializeToString()
    behind = content.index(b"graph") + len(b"graph")  # its name stands before its tensors
    for length in range(behind + 16):
        with pytest.raises(HeaderError):
            read(content[:length])


@cases(200)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_our_error(content):
    with contextlib.suppress(HeaderError):
        assert all(number >= 0 for number, _ in fields(content))


def graph(nodes=(), tensors=(), outputs=("y",)):
    """A message of these nodes and tensors, to which a matrix `x` is given."""
    floats = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", *outputs)}
    given, out = [floats["x"]], [floats[name] for name in outputs]
    made = helper.make_graph([*nodes], "graph", given, out, [*tensors])
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=versions, ir_version=10)


def read(model):
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return parse(io.BytesIO(content), len(content))


def tensor(name, numbers, kind=None):
    """A tensor with its numbers as bytes or, where a kind is named, in the list of that kind."""
    numbers = np.asarray(numbers)
    if kind is None:
        return numpy_helper.from_array(numbers, name)
    return helper.make_tensor(name, kind, numbers.shape, numbers.reshape(-1).tolist())


def test_nodes_are_those_that_onnx_reads_and_a_list_that_goes_on_is_cut():
    empty = [helper.make_empty_tensor_value_info("inner")]
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["inner"])], "b", [], empty)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="/encoder/MatMul"),
        helper.make_node("MatMulNBits", ["x", "q", "s"], ["z"], domain="com.microsoft", K=64, N=3, bits=4),
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("Gemm", ["x", "w"], ["g"], alpha=0.5, transB=1),
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
    ]
    entry = nodes[0].metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.name_scopes", "['', 'encoder', 'encoder.dense', 'linear']"
    found = read(graph(nodes))
    assert [
        (node.kind, node.name, node.inputs, node.outputs, node.domain) for node in found.nodes if node.kind != "Neg"
    ] == [(node.op_type, node.name, tuple(node.input), tuple(node.output), node.domain) for node in nodes]
    by_kind = {node.kind: node for node in found.nodes}
    assert by_kind["MatMul"].scope == "encoder.dense"
    assert by_kind["MatMulNBits"].attributes == {"K": 64, "N": 3, "bits": 4}
    assert by_kind["Transpose"].attributes == {"perm": (1, 0)}
    assert by_kind["Gemm"].attributes == {"alpha": 0.5, "transB": 1}
    assert by_kind["If"].inner == ("inner", "inner")
    assert found.outputs == ("y",)
    node = field(1, b"") + field(4, b"X") + field(5, field(1, b"perm") + field(8, varint(1) * 10_000))
    assert len(read(field(7, field(1, node))).nodes[0].attributes["perm"]) == onnx_header.SHORT


def test_tensors_are_found_where_their_numbers_lie_also_in_another_file():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    listed = {"floats": TensorProto.FLOAT, "doubles": TensorProto.DOUBLE, "halves": TensorProto.FLOAT16}
    tensors = [tensor("raw", values), tensor("shape", np.array([0, -1, 4, 8]))]
    tensors += [tensor(name, values, kind) for name, kind in listed.items()]
    tensors.append(tensor("listed", np.array([5, -7]), TensorProto.INT64))
    content = graph([helper.make_node("Constant", [], ["c"], value=tensor("", values))], tensors).SerializeToString()
    found = read(content).tensors
    forms = {"raw": RAW, "floats": FLOATS, "doubles": DOUBLES, "halves": VARINTS, "shape": RAW, "listed": VARINTS}
    assert {name: one.form for name, one in found.items()} == forms | {"c": RAW}
    for name in ("raw", "floats", "c"):
        start, length = found[name].span
        np.testing.assert_array_equal(np.frombuffer(content[start : start + length], np.float32).reshape(2, 3), values)
    assert (found["shape"].values, found["listed"].values) == ((0, -1, 4, 8), (5, -7))
    assert {one.shape for name, one in found.items() if name not in ("shape", "listed")} == {(2, 3)}
    found = read(outside(location="model.onnx_data", offset="4096", length="24")).tensors["w"]
    assert (found.form, found.file, found.span) == (OUTSIDE, "model.onnx_data", (4096, 24))
    assert read(outside(location="x")).tensors["w"].span == (0, 24)
    for odd in ({"location": ""}, {"length": "23"}, {"offset": "-1"}, {"offset": "1e3"}, {}):
        with pytest.raises(HeaderError, match="does not say where 'w'"):
            read(outside(**({"location": "x"} | odd if odd else {})))


def outside(**entries):
    held = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        held.external_data.add(key=key, value=value)
    return graph(tensors=[held])


def claimed(dims, content=b""):
    return graph(tensors=[TensorProto(name="w", data_type=1, dims=dims, raw_data=content)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an ONNX file with one graph;"),
        (b"PK\x03\x04", "is damaged or of another format"),
        (graph().SerializeToString() * 2, "is not an ONNX file with one graph;"),
        (claimed([2, 3], b"1234"), "'w' has 4 of 24 bytes"),
        *((claimed(dims, b"1234"), "has the shape") for dims in ([2**40, 2**40], [-2, 3], [1] * 9)),
        (graph(tensors=[tensor("w", [1.0]), tensor("w", [2.0])]), "two tensors of the name 'w'"),
        (graph([helper.make_node("Neg", ["x" * 5000], ["y"])]), "has a text of 5000 bytes"),
        (field(7, field(1, 3)), "a number in place of"),
    ],
    ids=itertools.count(),
)
def test_what_is_damaged_or_hostile_is_one_clear_line(content, message):
    with pytest.raises(HeaderError, match=message):
        read(content)
