import numpy as np
import pytest

from hf_lineage.evidence.units.order import (
    MOST_UNITS,
    PLACES,
    RANKS,
    copies,
    drawn_units,
    matched,
    order_test,
    sorted_by_size,
)
from tests.unit_rows import moved, opposite, rows, shuffled


def layers(candidate, base, weight=1.0):
    return [matched(base, candidate, np.arange(len(candidate.weight)), 0, weight)]


def test_units_are_matched_by_what_they_do_and_not_by_where_they_stand():
    base = rows(1)
    order = np.random.default_rng(0).permutation(len(base.weight))
    (layer,) = layers(base.select(order), base)
    assert np.array_equal(layer.places, np.arange(len(base.weight)))
    assert np.array_equal(np.argsort(np.argsort(layer.ranks)), order)


def test_the_statistic_of_places_is_the_share_of_a_copy():
    base = rows(1)
    order = order_test(layers(base, base), 199, 0)
    assert order.observed[PLACES] == pytest.approx(1, abs=1e-5)
    assert (order.p_value, order.z[RANKS] > 5) == (1 / 200, True)


def test_units_in_the_opposite_order_are_not_in_order():
    base = rows(1)
    assert order_test(layers(base.select(slice(None, None, -1)), base), 199, 0).p_value > 0.5


def test_units_that_take_away_are_not_alike():
    base = rows(1)
    assert order_test(layers(opposite(base), base), 199, 0).p_value > 0.5


def test_layers_without_units_that_match_leave_nothing_to_test():
    base, nothing = rows(1), rows(2).select(np.arange(3))
    assert order_test(layers(nothing, base), 199, 0) is None
    assert order_test([], 199, 0) is None


def test_no_more_units_are_permuted_than_needed():
    assert np.array_equal(drawn_units(10, "x"), np.arange(10))
    drawn = drawn_units(5000, "x")
    assert len(drawn) == MOST_UNITS == len(np.unique(drawn))
    assert not np.array_equal(drawn, drawn_units(5000, "y"))


@pytest.mark.parametrize(
    "key", [lambda layer: layer.weight, lambda layer: layer.sizes[0], lambda layer: -layer.sizes[1]]
)
def test_units_that_were_sorted_by_size_are_noticed(key):
    everything = [rows(seed) for seed in range(4)]
    assert not sorted_by_size(everything)
    assert sorted_by_size([layer.select(np.argsort(key(layer))) for layer in everything])


def test_units_of_one_size_are_not_sorted():
    layer = rows(0).select(np.zeros(96, dtype=int))
    assert not sorted_by_size([layer] * 4)


def test_layers_that_copy_each_other_are_noticed():
    one, other, random = rows(1), rows(2), np.random.default_rng(0)
    assert copies([one, other, moved(one, random, 0.3), shuffled(one, random), moved(other, random, 0.3)]) == [
        0,
        1,
        0,
        3,
        1,
    ]
    assert copies([one, rows(1, units=50)]) == [0, 1]
