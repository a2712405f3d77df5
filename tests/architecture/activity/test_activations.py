"""Activations: each has the slope of its values, ends in its polynomials without a step, and turns where it says."""

import numpy as np
import pytest
import torch

from hf_lineage.architecture.activity.activations import ACTIVATIONS, GATED, NAMED, swish, with_learned, xielu

STEP = 1e-6
ROUGH = 0.02
"""The most that an activation may jump at its first cut: what is dropped there is zero in a type of few digits."""
EVERY = {**ACTIVATIONS, "xielu(2, 0.1)": xielu(2.0, 0.1), "xielu(0.1, 2)": xielu(0.1, 2.0), "swish(3)": swish("x", 3.0)}
JUMPS = {"laplace": 0.05}


@pytest.mark.parametrize("name", EVERY)
def test_the_slope_is_that_of_the_values(name):
    found = EVERY[name]
    x = np.linspace(-25, 25, 997)
    x = x[np.min(np.abs(x[:, None] - np.array(found.curve.cuts)), axis=1) > 1e-3]
    measured = (found.value(x + STEP) - found.value(x - STEP)) / (2 * STEP)
    np.testing.assert_allclose(found.slope(x), measured, atol=1e-6 * max(1.0, float(np.abs(measured).max())))


@pytest.mark.parametrize("name", EVERY)
def test_it_ends_in_its_polynomials_without_a_step_that_matters(name):
    found = EVERY[name]
    for cut in (found.curve.cuts[0], found.curve.cuts[-1]):
        left, right = found.value(np.array([cut - 1e-9, cut + 1e-9]))
        assert abs(left - right) < JUMPS.get(name, ROUGH)


@pytest.mark.parametrize("name", EVERY)
def test_it_turns_where_it_says_and_nowhere_else(name):
    found = EVERY[name]
    x = np.linspace(-24.987, 24.987, 50_001)
    signs = np.sign(found.slope(x))
    x, signs = x[signs != 0], signs[signs != 0]
    seen = x[:-1][np.diff(signs) != 0]
    inside = [turn for turn in found.turns if found.curve.cuts[0] < turn]
    assert len(seen) == len(inside)
    np.testing.assert_allclose(sorted(seen), sorted(inside), atol=2e-3)


def test_every_name_is_one_of_transformers():
    from transformers.activations import ACT2FN

    assert sorted(set(NAMED) - set(ACT2FN)) == []


def test_the_names_of_t5_are_gated_and_their_gelu_is_the_one_by_tanh():
    assert {name: found.name for name, found in GATED.items()} == {
        "gated-relu": "relu",
        "gated-silu": "silu",
        "gated-gelu_new": "gelu_new",
        "gated-gelu": "gelu_new",
    }


def test_xielu_falls_before_it_rises_where_its_negative_factor_is_large():
    assert xielu(0.8, 0.8).turns == (pytest.approx(np.log1p(-0.5 / 0.8)),)
    assert xielu(0.8, 0.4).turns == ()


@pytest.mark.parametrize("numbers", [(0.8, -0.3, 0.5), (-200.0, -200.0, 0.0), (3.0, 1.0, -0.5)])
def test_xielu_with_what_a_layer_has_learned_is_the_module_with_those_numbers(numbers):
    from transformers.activations import XIELUActivation

    module = XIELUActivation(dtype=torch.float64)
    for name, value in zip(("alpha_p", "alpha_n", "beta"), numbers, strict=True):
        getattr(module, name).data.fill_(value)
    x = np.linspace(-8, 8, 161)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    assert with_learned(NAMED["xielu"], numbers).value(x) == pytest.approx(expected, abs=1e-5)


def test_what_a_layer_has_learned_is_nothing_to_other_activations():
    assert with_learned(NAMED["silu"], (1.0, 2.0, 3.0)) is NAMED["silu"]
    assert with_learned(NAMED["xielu"], ()) is NAMED["xielu"]
