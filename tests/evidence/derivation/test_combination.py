"""Weights by least squares: exact where the parents tell them, and a parent that equals others is named."""

import numpy as np
import pytest

from hf_lineage.evidence.derivation.combination import distance, solved

RANDOM = np.random.default_rng(0)
BASE = RANDOM.standard_normal(500)


def near(size=0.1):
    """A model that differs from the base a little."""
    return BASE + size * RANDOM.standard_normal(500)


def weights(parents, merge):
    rows = np.stack([*parents, merge])
    return solved(rows @ rows.T)


@pytest.mark.parametrize("size", [0.5, 0.01, 1e-3])
def test_the_weights_of_an_exact_combination_come_back(size):
    a, b, c = near(size), near(size), near(size)
    found, dependent = weights([a, b, c], 0.5 * a + 0.4 * b + 0.1 * c)
    assert found == pytest.approx([0.5, 0.4, 0.1], abs=1e-5)
    assert dependent == []


def test_weights_need_not_add_up_to_one():
    a, b = near(), near()
    assert weights([a, b], 0.7 * a + 0.5 * b)[0] == pytest.approx([0.7, 0.5])


def test_one_parent_alone_has_the_whole_weight():
    found, dependent = weights([BASE], 2 * BASE)
    assert (found.tolist(), dependent) == ([pytest.approx(2)], [])


def test_parents_that_are_the_same_are_named_and_the_others_keep_their_weights():
    a, b = near(), near()
    found, dependent = weights([a, b, a], 0.3 * a + 0.7 * b)
    assert dependent == [0, 2]
    assert found[1] == pytest.approx(0.7)
    assert weights([a, a], a)[1] == [0, 1]


def test_a_parent_on_the_line_between_two_others_cannot_be_told_from_them():
    a, b = near(), near()
    assert weights([a, b, (a + b) / 2], a)[1] == [0, 1, 2]


def test_the_distance_is_the_mean_square_over_all_pairs():
    points = np.array([[0.0], [1.0], [3.0]])
    assert distance(points @ points.T) == pytest.approx((1 + 9 + 4) / 3)
    assert distance(np.ones((1, 1))) == 0
