"""Numbers of every data type are those that the package onnx reads, however they are held."""

import io

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_lineage.checkpoint.foreign.onnx.header import VARINTS, OnnxTensor, parse
from hf_lineage.checkpoint.foreign.onnx.numbers import constant, stored, unpacked
from hf_lineage.checkpoint.stored import Memory
from hf_lineage.errors import CheckpointError
from tests.checkpoint.foreign.onnx.test_protobuf import varint

FLOATS = ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2"]
WHOLE = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "INT4", "UINT4", "BOOL"]


def decoded(held, folder):
    """A tensor of a file of its own, as it is read there."""
    model = helper.make_model(helper.make_graph([], "g", [], [], [held]))
    content = model.SerializeToString()
    file = folder / "model.onnx"
    file.write_bytes(content)
    tensor = parse(io.BytesIO(content), len(content)).tensors[held.name]
    info = constant(tensor)
    assert info.parts == (held.name,)
    assert info.shape == tuple(held.dims)
    return info.decode([stored(tensor, file, None).read(Memory())])


@pytest.mark.parametrize("raw", [True, False], ids=["bytes", "lists"])
@pytest.mark.parametrize("kind", FLOATS + WHOLE)
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
    found = decoded(held, tmp_path)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


def test_a_data_type_that_numpy_has_not_is_not_read():
    for kind in (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT4E2M1):
        info = constant(OnnxTensor("t", (2,), kind))
        assert info.refusal == f"is stored as data type {kind} of ONNX, which hf-lineage cannot read"


def test_a_list_of_other_numbers_than_the_shape_asks_for_is_damaged():
    held = OnnxTensor("t", (3,), TensorProto.INT32, VARINTS)
    decode = constant(held).decode
    good = b"".join(map(varint, (1, -1, 300)))
    np.testing.assert_array_equal(decode([np.frombuffer(good, np.uint8)]), [1, -1, 300])
    for content in (good[:-1], good + varint(7), good + b"\x80", b"\x80" * 11 + b"\x01\x02\x03", b""):
        with pytest.raises(CheckpointError, match=r"t holds \d of 3 numbers"):
            decode([np.frombuffer(content, np.uint8)])


def test_packed_numbers_begin_with_the_lowest_bits():
    content = np.array([0b11100100], np.uint8)
    assert unpacked(content, 2).tolist() == [0, 1, 2, 3]
    assert unpacked(content, 4).tolist() == [0b0100, 0b1110]
    assert unpacked(content, 8).tolist() == [0b11100100]
