"""Matrices: what a role does to the stream is the same however it is stored."""

import ml_dtypes
import numpy as np
import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.signature import factors
from tests.signature.test_factors import ATTENTION, HEADS, MLP, WIDTH, model, random, weights


def bound(found, stored, branch="mlp", names="h.0.{}.weight"):
    """The only set of a branch of the only layer, with what reads its tensors."""
    named = {names.format(name) if "." not in name else f"h.0.{name}": tensor for name, tensor in stored.items()}
    layout = bind(found, {name: tuple(tensor.shape) for name, tensor in named.items()}, {"num_attention_heads": HEADS})
    ((only,),) = layout.branches[branch]
    return layout, only, named.__getitem__


def test_a_reader_has_a_row_for_each_unit_and_a_writer_a_column():
    layout, mlp, read = bound(model(), stored := weights())
    assert np.array_equal(factors.reader(layout, mlp, "up", read, gains=False), stored["up"])
    assert np.array_equal(factors.writer(layout, mlp, "down", read), stored["down"])


def test_stored_the_other_way_round_they_are_turned():
    turned = {name: tensor.T if tensor.ndim == 2 else tensor for name, tensor in weights().items()}
    layout, mlp, read = bound(model(stored="in_out"), turned)
    assert np.array_equal(factors.reader(layout, mlp, "up", read, gains=False), weights()["up"])
    assert np.array_equal(factors.writer(layout, mlp, "down", read), weights()["down"])


def test_a_key_or_value_head_is_there_for_every_query_head_that_it_serves():
    layout, attention, read = bound(model(), stored := weights(), "attention")
    for role, name in (("key", "k"), ("value", "v")):
        first, second = np.split(stored[name], 2)
        expected = np.concatenate([first, first, second, second])
        assert np.array_equal(factors.reader(layout, attention, role, read, gains=False), expected)
    assert np.array_equal(factors.reader(layout, attention, "query", read, gains=False), stored["q"])


def test_stacked_experts_stand_side_by_side_in_what_writes_and_one_after_the_other_in_what_reads():
    stored = {"up": random(3, 5, WIDTH), "down": random(3, WIDTH, 5)}
    layout, mlp, read = bound(model(mlp=MLP, attention=[None, ATTENTION]), stored)
    assert np.array_equal(factors.writer(layout, mlp, "down", read), np.concatenate(stored["down"], axis=1))
    assert np.array_equal(factors.reader(layout, mlp, "up", read, gains=False), np.concatenate(stored["up"]))


def test_the_taps_of_a_convolution_are_summed():
    kernel = random(5, WIDTH, 3, 3)
    stored = {"up": kernel, "down": random(WIDTH, 5, 1, 1)}
    layout, mlp, read = bound(model(mlp=MLP, attention=[None, ATTENTION]), stored)
    found = factors.reader(layout, mlp, "up", read, gains=False)
    np.testing.assert_allclose(found, kernel.sum(axis=(2, 3)), rtol=1.3e-6, atol=1e-5)


@pytest.mark.parametrize(("said", "expected"), [({}, [0.5, 2.0]), ({"gain": "one_plus"}, [1.5, 3.0])])
def test_a_gain_is_that_which_the_norm_multiplies_with(said, expected):
    layout, mlp, _ = bound(model(**said), weights())
    found = factors.gain(layout, mlp, "any", lambda name: np.array([0.5, 2.0], ml_dtypes.bfloat16))
    assert found.tolist() == expected
    assert found.dtype == np.float32


def test_the_gain_of_a_batch_norm_is_over_the_root_of_its_variance():
    stored = {"up": random(5, WIDTH), "down": random(WIDTH, 5)}
    norm = {"ln.weight": np.full(WIDTH, 3.0, np.float32), "ln.running_var": np.full(WIDTH, 4.0, np.float32)}
    found = model(mlp=MLP | {"norm": "ln"}, attention=[None, ATTENTION], normalization="batch_norm")
    layout, mlp, read = bound(found, stored | norm)
    assert mlp.variances == {"h.0.ln.weight": "h.0.ln.running_var"}
    np.testing.assert_allclose(factors.gain(layout, mlp, mlp.norm, read), np.full(WIDTH, 1.5), rtol=1e-5)
