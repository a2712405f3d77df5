import itertools
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.unit_order import PLACES, RANKS, copies, matched, order_test
from tests.unit_rows import moved, opposite, rows, shuffled


def layers(candidate, base, weight=1.0):
    return [matched(base, candidate, np.arange(len(candidate.weight)), 0, weight)]


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


def test_drawn_permutations_give_the_p_of_all_of_them():
    """Five units: all 12 permutations of the small and of the large ones, by the statistic of the moved units."""
    sizes = np.array([1.0, 4.0, 1.3, 3.0, 5.0])
    base, candidate = (replace(rows(seed, units=5), sizes=np.stack([sizes] * 2)) for seed in (1, 2))
    orders = [order for order in itertools.permutations(range(5)) if {order[0], order[2]} == {0, 2}]
    everything = [candidate.select(np.array(order)) for order in orders]
    observed = [order_test(layers(one, base), 19, 0).observed[PLACES] for one in everything]
    for place in range(12):
        expected = np.mean(np.array(observed) >= observed[place] - 1e-6)
        drawn = [order_test(layers(everything[place], base), 199, seed).p_value for seed in range(20)]
        assert np.mean(drawn) == pytest.approx(expected, rel=0.15)
