"""Weights by least squares: exact where the parents tell them, and a parent that equals others is named."""

import numpy as np
import pytest

from hf_lineage.evidence.derivation.combination import dependents, distance, left, solved, squared

RANDOM = np.random.default_rng(0)
BASE = RANDOM.standard_normal(500)


def near(size=0.1):
    """A model that differs from the base a little."""
    return BASE + size * RANDOM.standard_normal(500)


def gram(*models):
    """The inner products of the first one and of all differences from it, the merge last."""
    first, *others = models
    rows = np.stack([first, *(one - first for one in others)])
    return rows @ rows.T


@pytest.mark.parametrize("size", [0.5, 0.01, 1e-3])
def test_the_weights_of_an_exact_combination_come_back_and_nothing_is_left(size):
    a, b, c = near(size), near(size), near(size)
    products = gram(a, b, c, 0.5 * a + 0.4 * b + 0.1 * c)
    assert solved(products) == pytest.approx([0.5, 0.4, 0.1], abs=1e-9)
    assert left(products, solved(products)) < 1e-12
    assert dependents(products) == []


def test_weights_need_not_add_up_to_one():
    a, b = near(), near()
    assert solved(gram(a, b, 0.7 * a + 0.5 * b)) == pytest.approx([0.7, 0.5])


def test_one_parent_alone_has_the_whole_weight():
    assert solved(gram(BASE, 2 * BASE)) == pytest.approx([2])
    assert dependents(gram(BASE, 2 * BASE)) == []


def test_what_no_parent_explains_is_left():
    a, b, other = near(), near(), RANDOM.standard_normal(500)
    products = gram(a, b, 0.3 * a + 0.7 * b + 0.01 * other)
    assert left(products, solved(products)) == pytest.approx(1e-4 * other @ other, rel=0.05)


def test_parents_that_are_the_same_are_named_and_the_others_keep_their_weights():
    a, b = near(), near()
    products = gram(a, b, a, 0.3 * a + 0.7 * b)
    assert dependents(products) == [0, 2]
    assert solved(products)[1] == pytest.approx(0.7)
    assert dependents(gram(a, a, a)) == [0, 1]


def test_a_parent_on_the_line_between_two_others_cannot_be_told_from_them():
    a, b = near(), near()
    assert dependents(gram(a, b, (a + b) / 2, a)) == [0, 1, 2]


def test_the_distance_is_the_mean_square_over_all_pairs_of_parents():
    products = gram(np.array([1.0]), np.array([2.0]), np.array([4.0]), np.array([9.0]))
    assert distance(products) == pytest.approx((1 + 9 + 4) / 3)
    assert [squared(products, 3, parent) for parent in range(3)] == pytest.approx([64, 49, 25])
    assert distance(gram(np.array([1.0]), np.array([3.0]))) == 0
