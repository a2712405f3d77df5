"""What every unit adds to a branch: room for all that is kept, and scaling that neither invents nor hides a number."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature.unit_norms import part_norms, unit_dots
from tests.terms import WIDTH, branch, measured_units, random


@pytest.mark.parametrize("count", [1, 7, 16, 40])
def test_the_inner_product_of_every_unit_is_that_of_its_two_rows(count):
    out, inn = random(count, WIDTH), random(count, WIDTH, seed=1)
    expected = (out.astype(np.float64) * inn).sum(axis=1)
    np.testing.assert_allclose(unit_dots(out, inn), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(unit_dots(np.asfortranarray(out), inn), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(unit_dots(np.asfortranarray(out), np.asfortranarray(inn)), expected, 1e-5, 1e-5)


def test_the_norm_of_a_part_is_that_of_its_own_product():
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    by_hand = [np.linalg.norm(out[part].T @ inn[part]) for part in (slice(4), slice(4, 8))]
    np.testing.assert_allclose(part_norms(out, inn, 4), by_hand, rtol=1e-6)
    units = [np.linalg.norm(np.outer(a, b)) for a, b in zip(out, inn, strict=True)]
    np.testing.assert_allclose(part_norms(out, inn, 1), units, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_the_norm_of_a_part_neither_overflows_nor_vanishes(size):
    size = np.float32(size)
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    np.testing.assert_allclose(part_norms(size * out, inn / size, 4), part_norms(out, inn, 4), rtol=1e-5)
    (plain,) = branch()
    (scaled,) = measured_units(replace(plain, writer=size * plain.writer, reader=plain.reader / size))
    np.testing.assert_allclose(scaled.norm, measured_units(plain)[0].norm, rtol=1e-5)


SCALED = ("seen", "corner", "trace", "total")


def units(part=1, hidden=8):
    (term,) = branch(hidden=hidden, part=part)
    return measured_units(term)[0]


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
