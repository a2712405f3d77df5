"""Fit: what the shapes of a checkpoint say of heads, hidden units and experts, and what is said where they disagree."""

from dataclasses import replace

import pytest

from hf_lineage.architecture.layout import Fit, is_transposed
from hf_lineage.architecture.matrix_sets import Heads, LayerSet
from hf_lineage.architecture.registry import Slot
from hf_lineage.errors import CheckpointError
from tests.architecture.test_layout import HEADS, HIDDEN, PLAIN, SIZE, WIDTH, factorization

TINY = factorization(PLAIN)
SHAPES = {
    "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN), "q": (HEADS * SIZE, WIDTH), "k": (2 * SIZE, WIDTH),
    "v": (2 * SIZE, WIDTH), "o": (WIDTH, HEADS * SIZE),
}  # fmt: skip


def slot(name, *roles, **others):
    return Slot(name, roles or (name,), (roles or (name,))[0], **others)


def fit(heads=HEADS, config=None, **changes):
    return Fit(TINY, SHAPES | changes, config or {}, heads, WIDTH)


def mlp(**others):
    return LayerSet({"up": slot("up"), "down": slot("down")}, None, None, None, **others)


def attention(**others):
    slots = {
        "query": slot("q", "query"),
        "key": slot("k", "key"),
        "value": slot("v", "value"),
        "output": slot("o", "output"),
    }
    return LayerSet(slots | others, None, None, None)


def said(call, *arguments):
    with pytest.raises(CheckpointError) as refused:
        call(*arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("stored", "other_way", "expected"),
    [("out_in", False, False), ("out_in", True, True), ("in_out", False, True), ("in_out", True, False)],
)
def test_a_matrix_is_turned_where_the_file_or_the_registry_says_so_and_not_where_both_do(stored, other_way, expected):
    found = factorization(f"{PLAIN}stored: {stored}\n")
    assert is_transposed(found, slot("up", transposed=other_way)) is expected


@pytest.mark.parametrize(
    ("shape", "plain", "other_way"),
    [((8, 5), (8, 5), (5, 8)), ((3, 8, 5), (3, 8, 5), (3, 5, 8)), ((8, 5, 3, 3), (8, 5), (5, 8)), ((8,), (8,), (8,))],
)
def test_a_shape_is_given_as_out_and_in_whatever_is_stored(shape, plain, other_way):
    assert fit(x=shape).shape(slot("x")) == plain
    assert fit(x=shape).shape(slot("x", transposed=True)) == other_way


@pytest.mark.parametrize("shape", [(), (8,), (0, 8), (8, 0), (2, 3, 4, 5, 6)])
def test_what_is_no_matrix_is_refused(shape):
    assert said(fit(up=shape).matrix, slot("up")) == f"up has shape {shape}, which is not the shape of a matrix"


def test_hidden_units_are_those_of_the_writer_and_every_reader_has_as_many():
    found = fit().mlp(mlp())
    assert found.heads == {"up": Heads(HIDDEN, 1), "down": Heads(HIDDEN, 1)}
    assert (found.units, found.width, found.stacked) == (HIDDEN, WIDTH, ())
    assert said(fit(up=(HIDDEN, WIDTH + 1)).mlp, mlp()) == (
        f"up has shape {(HIDDEN, WIDTH + 1)}, but the rest of the model needs {(HIDDEN, WIDTH)} (out, in)"
    )
    assert fit(up=(3, HIDDEN, WIDTH), down=(3, WIDTH, HIDDEN)).mlp(mlp()).stacked == (3,)


@pytest.mark.parametrize(("keys", "count"), [(1, 1), (2, 2), (4, 4)])
def test_keys_and_values_may_be_fewer_than_queries_that_they_divide(keys, count):
    found = fit(k=(keys * SIZE, WIDTH), v=(keys * SIZE, WIDTH)).attention(attention())
    assert found.heads == {"query": Heads(HEADS, SIZE), "key": Heads(count, SIZE), "value": Heads(count, SIZE)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": (3 * SIZE, WIDTH), "v": (3 * SIZE, WIDTH)}, "o: 4 query, 3 key, 3 value heads do not fit the 4"),
        ({"k": (SIZE, WIDTH)}, "o: 4 query, 1 key, 2 value heads do not fit the 4 heads of config.json"),
        ({"k": (2 * SIZE + 1, WIDTH)}, f"k has shape {(2 * SIZE + 1, WIDTH)}, but the rest of the model needs (6, 8)"),
        ({"o": (WIDTH, HEADS * SIZE + 1)}, "o has shape (8, 13) (out, in), which does not divide into 4 heads"),
        ({"o": (WIDTH + 1, HEADS * SIZE)}, "o has shape (9, 12), but the rest of the model needs (8, 12)"),
        ({"q": (HEADS * SIZE + 2, WIDTH)}, "q has shape (14, 8) (out, in), which does not divide into 4 heads"),
    ],
)
def test_heads_that_do_not_line_up_are_refused(changes, message):
    assert said(fit(**changes).attention, attention()).startswith(message)


def test_queries_may_have_another_size_than_values():
    found = fit(q=(HEADS * 5, WIDTH), k=(2 * 5, WIDTH)).attention(attention())
    assert found.heads == {"query": Heads(HEADS, 5), "key": Heads(2, 5), "value": Heads(2, SIZE)}


def test_packed_roles_share_the_rows_of_their_matrix():
    packed = {role: slot("qkv", "query", "key", "value") for role in ("query", "key", "value")}
    found = fit(qkv=((HEADS + 2 + 2) * SIZE, WIDTH)).attention(attention(**packed))
    assert found.heads == {"query": Heads(HEADS, SIZE), "key": Heads(2, SIZE), "value": Heads(2, SIZE)}
    for rows, message in (
        (3, "qkv has shape (21, 8), but"),
        (6, "o: 4 query, 3 key, 3 value"),
        (0, "o: 4 query, 0 key"),
    ):
        found = fit(qkv=((HEADS + rows) * SIZE, WIDTH))
        assert said(found.attention, attention(**packed)).startswith(message)


def test_a_latent_is_as_wide_as_what_reads_it_and_made_from_the_stream():
    key = slot("k", "key", latent=("down_k", "ln"))
    shapes = {"k": (2 * SIZE, 5), "down_k": (5, WIDTH), "ln": (5,)}
    assert fit(**shapes).attention(attention(key=key)).heads["key"] == Heads(2, SIZE)
    assert said(fit(**shapes | {"ln": (4,)}).attention, attention(key=key)).startswith("ln has shape (4,)")
    assert said(fit(**shapes | {"down_k": (4, WIDTH)}).attention, attention(key=key)).startswith(
        "down_k has shape (4, 8)"
    )


@pytest.mark.parametrize(("which", "size"), [("norm", WIDTH), ("output_norm", WIDTH), ("inner_norm", HIDDEN)])
def test_a_norm_is_as_long_as_what_it_stands_on(which, size):
    normed = replace(mlp(biases={"ln": "shift"}, variances={"ln": "variance"}), **{which: "ln"})
    vectors = dict.fromkeys(("ln", "shift", "variance"), (size,))
    assert fit(**vectors).mlp(normed).units == HIDDEN
    for name in vectors:
        message = said(fit(**vectors | {name: (size + 1,)}).mlp, normed)
        assert "has shape" in message
        assert "the rest of the model needs" in message
