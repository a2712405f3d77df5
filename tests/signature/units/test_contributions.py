"""What is kept of every unit: as much room as its term needs, and a scaling that neither invents nor hides a number."""

import numpy as np
import pytest

from hf_lineage.signature.products.residual import Probes
from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS
from hf_lineage.signature.units.contributions import Units
from tests.terms import EXACT, WIDTH, branch, surveyed

SCALED = ("seen", "corner", "trace", "total")


def units(part=1, hidden=8):
    (term,) = branch(hidden=hidden, part=part)
    return surveyed(term)[0]


@pytest.mark.parametrize("part", [1, 2, 4])
def test_there_is_a_number_for_each_unit_and_a_norm_for_each_part(part):
    (term,) = branch(hidden=8, part=part)
    empty = Units.empty(term, Probes.of(EXACT, WIDTH))
    assert empty.seen.shape == (8, WIDTH)
    assert empty.corner.shape == (8, EXACT.coordinates)
    assert {getattr(empty, name).shape for name in ("mean", "trace", "total", "spread", "centre")} == {(8,)}
    assert empty.norm.shape == (8 // part,)
    assert {empty.norm.dtype, empty.spread.dtype, empty.centre.dtype} == {np.dtype(np.float64)}


def test_hidden_units_have_signs_of_both_sides_and_heads_of_their_product():
    hidden, heads = units(), units(part=4)
    assert (hidden.inner.shape, hidden.outer.shape) == ((8, UNIT_SIGNS), (8, UNIT_SIGNS))
    few = min(EXACT.coordinates, HEAD_COORDINATES)
    assert (heads.inner.shape, heads.outer.shape) == ((2, few**2), (2, 0))


@pytest.mark.parametrize("part", [1, 4])
def test_every_part_is_scaled_by_its_own_factor(part):
    before, after = units(part), units(part)
    factors = np.arange(1, 8 // part + 1) / 2
    after.scale(factors)
    np.testing.assert_allclose(after.norm, before.norm * factors)
    each = np.repeat(factors.astype(np.float32), part)
    for name in SCALED:
        value = getattr(before, name)
        expected = value * (each[:, None] if value.ndim > 1 else each)
        np.testing.assert_allclose(getattr(after, name), expected, rtol=1e-6, err_msg=name)


def test_a_negative_factor_turns_what_a_unit_adds_and_no_norm():
    before, after = units(), units()
    after.scale(np.full(8, -1.0))
    assert np.array_equal(after.trace, -before.trace)
    assert np.array_equal(after.norm, before.norm)


def test_a_part_that_is_shut_adds_nothing_though_it_is_too_large_for_float32():
    found = units()
    for name in SCALED:
        getattr(found, name)[0] = np.inf
    found.norm[0] = 1e300
    with np.errstate(invalid="ignore"):
        found.scale(np.array([0.0] + [1.0] * 7))
    assert all(not getattr(found, name)[0].any() for name in SCALED)
    assert found.norm[0] == 0
    assert all(np.isfinite(getattr(found, name)).all() for name in SCALED)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_weights_that_are_not_finite_cannot_be_scaled_away(poison):
    found = units()
    found.norm[3] = poison
    with np.errstate(invalid="ignore"):
        found.scale(np.zeros(8))
    assert not np.isfinite(found.norm[3])
    assert np.isfinite(found.norm).sum() == 7
