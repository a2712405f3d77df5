"""Curves: smooth between the cuts, polynomials outside, with their slopes.

The standard normal distribution: the same numbers one by one as by scipy.
"""

import numpy as np
import pytest
from scipy.stats import norm

from hf_lineage.architecture.activity.activations import ACTIVATIONS
from hf_lineage.architecture.activity.curves import (
    FEW,
    ONE,
    SAME,
    ZERO,
    Curve,
    clamped,
    density_at,
    derivative,
    make,
    polynomial,
    share_below,
)

Z = np.concatenate([np.linspace(-9, 9, FEW - 3), [-np.inf, np.inf, 0.0]])


@pytest.mark.parametrize("times", [1, 2], ids=["few", "many"])
def test_the_share_below_is_that_of_scipy(times):
    z = np.tile(Z, times)
    np.testing.assert_allclose(share_below(z), norm.cdf(z), rtol=1e-13, atol=0)


def test_nothing_lies_below_what_is_not_a_number():
    assert np.isnan(share_below(np.array([np.nan]))).all()
    assert np.isnan(share_below(np.full(FEW + 1, np.nan))).all()


def test_arrays_keep_their_shape():
    assert share_below(np.zeros((3, 4))).shape == density_at(np.zeros((3, 4))).shape == (3, 4)


def test_the_density_is_that_of_scipy():
    np.testing.assert_allclose(density_at(Z), norm.pdf(Z), rtol=1e-12)


FAR = np.array([-np.inf, -1e300, -100.0, 100.0, 1e300, np.inf])


def square():
    """x² between -1 and 2, 0 left of that and 4 right of it."""
    return make("square", lambda x: x * x, lambda x: 2 * x, (-1.0, 0.0, 2.0), (ZERO, (4.0, 0.0, 0.0)), turns=(0.0,))


def test_between_the_cuts_it_is_the_function_and_outside_the_polynomials():
    x = np.array([-3.0, -1.0, -0.5, 0.0, 1.5, 2.0, 2.1])
    assert square().value(x).tolist() == [0, 1, 0.25, 0, 2.25, 4, 4]
    assert square().slope(x).tolist() == [0, -2, -1, 0, 3, 4, 0]


def test_the_function_is_asked_for_nothing_outside_the_cuts():
    asked = []

    def inner(x):
        asked.extend(np.atleast_1d(x).tolist())
        return np.exp(x)

    assert Curve(inner, (-1.0, 1.0)).at(FAR).tolist() == [0, 0, 0, 100, 1e300, np.inf]
    assert min(asked) >= -1
    assert max(asked) <= 1


@pytest.mark.parametrize(
    ("coefficients", "values"),
    [(ZERO, [0, 0, 0]), (ONE, [1, 1, 1]), (SAME, [-np.inf, 2, np.inf]), ((1.0, -1.0, 3.0), [np.inf, 11, np.inf])],
)
def test_a_polynomial_leaves_out_what_is_multiplied_with_zero(coefficients, values):
    with np.errstate(invalid="ignore"):
        found = polynomial(coefficients, np.array([-np.inf, 2.0, np.inf]))
    assert found.tolist()[:2] == values[:2]
    if coefficients[1] >= 0:
        assert found[2] == values[2]


def test_the_derivative_of_a_polynomial_is_its_slope():
    assert derivative((5.0, 3.0, 2.0)) == (3.0, 4.0, 0.0)
    assert derivative(ONE) == ZERO
    assert derivative(SAME) == ONE


def test_the_steepness_is_the_absolute_slope_and_is_cut_where_the_slope_turns():
    steep = square().steepness
    assert steep.cuts == (-1.0, 0.0, 2.0)
    assert steep.at(np.array([-2.0, -0.5, 0.0, 1.0, 3.0])).tolist() == [0, 1, 0, 2, 0]
    falling = make(
        "falling", lambda x: -x, lambda x: -np.ones_like(x), (0.0, 1.0), ((0.0, -1.0, 0.0), (0.0, -1.0, 0.0))
    )
    assert falling.steepness.at(np.array([-9.0, 0.5, 9.0])).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_steepness_of_every_activation_is_its_absolute_slope(name):
    x = np.linspace(-30, 30, 2001)
    found = ACTIVATIONS[name]
    np.testing.assert_allclose(found.steepness.at(x), np.abs(found.slope(x)), atol=1e-12)


@pytest.mark.parametrize("limit", [0.5, 7.0, 50.0])
def test_a_clamped_activation_is_what_it_was_up_to_the_limit_and_stays_there(limit):
    whole = ACTIVATIONS["silu"]
    found = clamped(whole, limit, 1.0)
    x = np.linspace(-60, 60, 1201)
    np.testing.assert_allclose(found.value(x), whole.value(np.minimum(x, limit)), atol=1e-12)
    np.testing.assert_allclose(found.slope(x), np.where(x <= limit, whole.slope(x), 0), atol=1e-12)
    assert (found.name, found.limit, found.offset) == ("clamped_silu", limit, 1.0)
