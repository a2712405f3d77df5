"""Experts are paired as sets of units, and the order of units is tested within them."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from hf_lineage.evidence import unit_order
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.unit_comparison import TOKEN, Coordinates, OrderSettings, compare_units, judge_units
from hf_lineage.evidence.unit_order import PLACES, RANKS, match_order, order_test, orders_within, strata_of
from hf_lineage.signature.recipe import random_stream
from tests.long import first_of
from tests.unit_rows import moved, opposite, rows, unit
from tests.unit_rows import shuffled as in_another_order

EXPERTS, UNITS, LAYERS = 4, 24, 2
SIZES = np.exp(0.5 * np.random.default_rng(0).normal(size=(2, 300)))


def layer(seed, experts=EXPERTS):
    """A layer of independent experts."""
    return replace(rows(seed, units=experts * UNITS), experts=(UNITS,) * experts)


def upcycled(seed):
    """A layer whose experts are copies of one, each unit of which was moved by itself."""
    own, copied = layer(seed), rows(1000 + seed, units=UNITS).select(np.tile(np.arange(UNITS), EXPERTS))
    sides = {side: 0.7 * getattr(copied, side) + 0.3 * getattr(own, side) for side in ("inner", "outer")}
    return replace(own, **{side: unit(vectors) for side, vectors in sides.items()})


def model(seed, make=layer):
    return {number: make(100 * seed + number) for number in range(LAYERS)}


def compared(base, candidate, permutations=99, seed=0):
    return compare_units(base, candidate, LAYERS, Coordinates(TOKEN), OrderSettings(permutations, seed))


def edited(layers, edit):
    return {number: replace(edit(one), experts=one.experts) for number, one in layers.items()}


def reordered(one):
    return one.select(np.concatenate([np.arange(len(one.weight))[one.by_expert[expert]] for expert in (2, 0, 3, 1)]))


def shuffled(one):
    random = np.random.default_rng(5)
    return one.select(np.concatenate([random.permutation(np.arange(len(one.weight))[part]) for part in one.by_expert]))


BASE = model(1)
CHILD = edited(BASE, lambda one: moved(one, np.random.default_rng(3)))


def test_units_are_found_in_any_order_of_experts_and_an_expert_of_its_own_is_not():
    found = [compared(BASE, one) for one in (CHILD, edited(CHILD, reordered), edited(CHILD, shuffled))]
    assert min(one.inherited.share for one in found) > 0.99
    assert [one.p_value for one in found[:2]] == [0.01, 0.01]
    assert found[2].p_value > 0.05
    verdict = judge_units(compared(BASE, mixed_in(CHILD, np.arange(EXPERTS * UNITS) < 3 * UNITS)), Criteria())
    assert verdict.label == "RELATED part"
    assert 0.1 < verdict.unit_comparison.inherited.share < 0.4


def mixed_in(layers, chosen):
    """Layers some of whose units are those of another model."""
    mixed = {}
    for (number, one), own in zip(layers.items(), model(2).values(), strict=True):
        inner, outer = (np.where(chosen[:, None], *pair) for pair in ((own.inner, one.inner), (own.outer, one.outer)))
        mixed[number] = replace(one, inner=inner, outer=outer)
    return mixed


def test_a_dense_layer_is_compared_with_every_expert_that_was_made_of_it():
    dense = {number: rows(7 + number, units=UNITS) for number in range(LAYERS)}
    tiled = {number: one.select(np.tile(np.arange(UNITS), EXPERTS)) for number, one in dense.items()}
    stacked = {number: replace(one, experts=(UNITS,) * EXPERTS) for number, one in tiled.items()}
    experts = edited(stacked, lambda one: moved(one, np.random.default_rng(1)))
    for base, candidate in ((dense, experts), (experts, dense)):
        found = compared(base, candidate)
        assert (found.p_value, found.inherited.share > 0.99) == (0.01, True)


KINDS = {
    "fresh": (layer, layer),
    "upcycled": (upcycled, upcycled),
    "of unlike numbers of experts": (functools.partial(layer, experts=3), layer),
}


@pytest.mark.parametrize(("of_base", "of_candidate"), first_of(KINDS))
def test_p_of_independent_models_is_uniform(of_base, of_candidate):
    pairs = [(model(2 * seed, of_base), model(2 * seed + 1, of_candidate)) for seed in range(100)]
    p_values = [compared(*pair, permutations=39, seed=seed).p_value for seed, pair in enumerate(pairs)]
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_few_units_found_among_some_that_were_looked_at_are_not_called_unrelated():
    few = edited(mixed_in(CHILD, np.arange(EXPERTS * UNITS) % 25 > 0), shuffled)
    assert judge_units(compared(BASE, few), Criteria()).word == "UNRELATED"
    part = {number: replace(one, kept_share=0.1) for number, one in few.items()}
    verdict = judge_units(compared(BASE, part), Criteria())
    assert verdict.word == "UNDECIDED"
    assert "(10% of the units were compared)" in verdict.reason


def matched_layers(candidate, base):
    return [match_order(base, candidate, np.arange(len(candidate.weight)), 0, 1.0)]


def test_a_copy_is_in_order_and_opposite_few_or_no_units_leave_nothing_to_test():
    base = rows(1)
    order = order_test(matched_layers(base, base), 199, 0)
    assert order.observed[PLACES] == pytest.approx(1, abs=1e-5)
    assert (order.p_value, order.z[RANKS] > 5) == (1 / 200, True)
    for other in (base.select(slice(None, None, -1)), opposite(base)):
        assert order_test(matched_layers(other, base), 199, 0).p_value > 0.5
    base, nothing = rows(1), rows(2).select(np.arange(3))
    assert order_test(matched_layers(nothing, base), 199, 0) is None
    assert order_test([], 199, 0) is None
    one, other, random = rows(1), rows(2), np.random.default_rng(0)
    layers = [one, other, moved(one, random, 0.3), in_another_order(one, random), moved(other, random, 0.3)]
    assert unit_order.copies(layers) == [0, 1, 0, 3, 1]
    assert unit_order.copies([one, rows(1, units=50)]) == [0, 1]


def test_drawn_permutations_give_the_p_of_all_of_them():
    """Five units: all 12 permutations of the small and of the large ones, by the statistic of the moved units."""
    sizes = np.array([1.0, 4.0, 1.3, 3.0, 5.0])
    base, candidate = (replace(rows(seed, units=5), sizes=np.stack([sizes] * 2)) for seed in (1, 2))
    orders = [order for order in itertools.permutations(range(5)) if {order[0], order[2]} == {0, 2}]
    everything = [candidate.select(np.array(order)) for order in orders]
    observed = [order_test(matched_layers(one, base), 19, 0).observed[PLACES] for one in everything]
    for place in range(12):
        expected = np.mean(np.array(observed) >= observed[place] - 1e-6)
        drawn = [order_test(matched_layers(everything[place], base), 199, seed).p_value for seed in range(20)]
        assert np.mean(drawn) == pytest.approx(expected, rel=0.15)


def test_every_row_is_in_one_stratum_of_its_size_and_permutations_leave_it_there():
    sets = strata_of(SIZES)
    assert np.array_equal(np.sort(np.concatenate(sets)), np.arange(300))
    for some in sets:
        alike = np.ptp(np.log(SIZES[:, some]), axis=1).max() < np.log(unit_order.RATIO)
        assert alike or unit_order.LEAST <= len(some) < 2 * unit_order.LEAST
    (order,) = orders_within(sets, 1, random_stream("a test"))
    again = strata_of(SIZES[:, order])
    assert {tuple(some) for some in again} == {tuple(some) for some in sets}
    assert not np.array_equal(order, np.arange(300))
    assert [some.tolist() for some in strata_of(np.ones((2, 9)))] == [[*range(9)]]
    apart = strata_of(np.array([[0.0, 0, 0, 0, 1, 1, 1, 1]]))
    assert sorted(some.tolist() for some in apart) == [[0, 1, 2, 3], [4, 5, 6, 7]]
