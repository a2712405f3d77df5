"""What all foreign forms share: a header that is read within its bound, and what a converter did is undone."""

import io

import numpy as np
import pytest

from hf_lineage.checkpoint.foreign_form import BoundedReader, HeaderError, Heads, Piece, by_pieces, revert
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError
from tests.gguf_models import by_role, permuted

ENDS = "is truncated: it ends too early; download it again"
MATRIX = np.random.default_rng(0).standard_normal((96, 40)).astype(np.float32)
EIGHT_AND_TWO = Heads(8, 2)
JOINED = np.arange(12, dtype=np.float32).reshape(6, 2)
weight_and_bias = pytest.mark.parametrize("matrix", [MATRIX, MATRIX[:, 0]], ids=["weight", "bias"])
BEHIND = [
    *(({}, read, count, ENDS) for read in (BoundedReader.take, BoundedReader.skip) for count in (9, 2**62)),
    ({"size": 2**30, "bound": 2**21}, BoundedReader.skip, 2**21 + 1, "a header of more than 2 MiB; do not trust"),
    ({"content": b""}, BoundedReader.take, 4, "changed while it was read; run again"),
]


def reader(content=bytes(range(8)), size=8, bound=None):
    return BoundedReader(io.BytesIO(content), size, "it ends too early", bound)


def test_parts_are_read_in_order_gains_less_one_and_matrices_transposed():
    one = reader()
    assert (one.number("<B"), one.take(2), one.position) == (0, b"\1\2", 3)
    one.skip(4)
    assert (one.number("<B"), one.position) == (7, 8)
    assert reader(b"a\xff").text(2) == "a\ufffd"
    gain = MATRIX[0]
    assert np.allclose(undone("plus_one", "attn_norm.weight", gain + 1), gain, atol=1e-6)
    assert np.array_equal(undone("plus_one", "attn_norm.bias", gain), gain)
    assert np.array_equal(undone("transposed", "ffn_up.weight", MATRIX), MATRIX.T)
    assert np.array_equal(undone("transposed", "ffn_up.bias", gain), gain)


@pytest.mark.parametrize(("given", "read", "count", "said"), BEHIND)
def test_nothing_is_read_behind_the_end_or_the_bound(given, read, count, said):
    with pytest.raises(HeaderError, match=said):
        read(reader(**given), count)


def undone(undo, name, stored, heads=EIGHT_AND_TWO):
    info = revert(undo, f"blk.0.{name}", TensorInfo(stored.shape, ("part",)), heads)
    decoded = info.decode([stored])
    assert decoded.shape == info.shape
    return decoded


@weight_and_bias
def test_rows_that_were_permuted_are_in_order_again(matrix):
    for name, heads in (("attn_q.weight", 8), ("attn_k.weight", 2)):
        assert not np.array_equal(permuted(matrix, heads), matrix)
        assert np.array_equal(undone("rotated", name, permuted(matrix, heads)), matrix)


@pytest.mark.parametrize("heads", [Heads(4, 2), Heads(4, 4), Heads(8, 2), Heads(14, 1)])
@weight_and_bias
def test_queries_keys_and_values_stand_by_head_again(heads, matrix):
    stored = by_role(matrix, heads.query, heads.key_value)
    assert np.array_equal(undone("by_role", "attn_qkv.weight", stored, heads), matrix)


@pytest.mark.parametrize(("undo", "heads"), [("rotated", 7), ("rotated", 96), ("by_role", 5), ("by_role", 97)])
def test_heads_that_do_not_fit_are_refused(undo, heads):
    with pytest.raises(CheckpointError, match=r"blk.0.attn_q.* has 96 rows, which do not (fit|make) .*; do not trust"):
        undone(undo, "attn_q.weight", MATRIX, Heads(heads, 2 if heads == 5 else heads))


def test_pieces_are_the_rows_they_name_and_two_of_one_name_are_refused():
    plain = Checkpoint({}, {"joined": TensorInfo((6, 2), (), decode=lambda parts: JOINED)})
    pieces = [Piece("a", "joined", rows=(0, 4)), Piece("b", "joined", rows=(4, 6), turned=True), Piece("c", "joined")]
    found = by_pieces(plain, pieces)
    assert found.shapes == {"a": (4, 2), "b": (2, 2), "c": (6, 2)}
    for name, expected in {"a": JOINED[:4], "b": JOINED[4:].T, "c": JOINED}.items():
        np.testing.assert_array_equal(found.read(name), expected)
    assert found.decoded_names == {"a", "b"}
    with pytest.raises(CheckpointError, match="two tensors of the file are a; do not trust it"):
        by_pieces(plain, [Piece("a", "joined"), Piece("a", "joined", turned=True)])
