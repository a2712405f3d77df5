"""Experts are paired as sets of units, and the order of units is tested within them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.unit_comparison import TOKEN, Frame, Test, compare_units, judge_framed
from tests.long import first_of
from tests.unit_rows import moved, rows, unit

EXPERTS, UNITS, LAYERS = 4, 24, 2


def layer(seed, experts=EXPERTS):
    """A layer of independent experts."""
    return replace(rows(seed, units=experts * UNITS), experts=(UNITS,) * experts)


def upcycled(seed, share):
    """A layer whose experts are copies of one, each unit of which was moved by itself."""
    own, copies = layer(seed), rows(1000 + seed, units=UNITS)
    inner, outer = (
        unit(share * np.tile(getattr(copies, side), (EXPERTS, 1)) + (1 - share) * getattr(own, side))
        for side in ("inner", "outer")
    )
    return replace(own, inner=inner, outer=outer)


def model(seed, make=layer, **settings):
    return {number: make(100 * seed + number, **settings) for number in range(LAYERS)}


def compared(base, candidate, permutations=99, seed=0):
    return compare_units(base, candidate, LAYERS, Frame(TOKEN), Test(permutations, seed))


def edited(layers, edit):
    return {number: replace(edit(one), experts=one.experts) for number, one in layers.items()}


def reordered(one):
    """The experts of a layer in another order."""
    return one.select(np.concatenate([np.arange(len(one.weight))[one.by_expert[expert]] for expert in (2, 0, 3, 1)]))


def shuffled(one):
    """The units of every expert in an order of their own."""
    random = np.random.default_rng(5)
    return one.select(np.concatenate([random.permutation(np.arange(len(one.weight))[part]) for part in one.by_expert]))


BASE = model(1)
CHILD = edited(BASE, lambda one: moved(one, np.random.default_rng(3)))


@pytest.mark.parametrize("edit", [lambda one: one, reordered], ids=["as they are", "experts reordered"])
def test_the_order_of_units_is_found_in_whatever_order_the_experts_stand(edit):
    found = compared(BASE, edited(CHILD, edit))
    assert (found.p_value, found.inherited.share > 0.99) == (0.01, True)


def test_units_that_were_shuffled_in_every_expert_are_found_out_of_order():
    found = compared(BASE, edited(CHILD, shuffled))
    assert found.p_value > 0.05
    assert found.inherited.share > 0.99


def test_an_expert_of_its_own_among_those_of_the_base_is_told_apart():
    mixed = edited(CHILD, lambda one: one)
    for number, own in model(2).items():
        chosen = np.arange(len(own.weight)) < 3 * UNITS
        inner, outer = (
            np.where(chosen[:, None], getattr(own, side), getattr(mixed[number], side)) for side in ("inner", "outer")
        )
        mixed[number] = replace(mixed[number], inner=inner, outer=outer)
    verdict = judge_framed(compared(BASE, mixed), Criteria())
    assert verdict.label == "RELATED part"
    assert 0.1 < verdict.framed.inherited.share < 0.4


def test_a_dense_layer_is_compared_with_every_expert_that_was_made_of_it():
    dense = {number: rows(7 + number, units=UNITS) for number in range(LAYERS)}
    experts = {
        number: moved(
            replace(one.select(np.tile(np.arange(UNITS), EXPERTS)), experts=(UNITS,) * EXPERTS),
            np.random.default_rng(1),
        )
        for number, one in dense.items()
    }
    for base, candidate in ((dense, experts), (experts, dense)):
        found = compared(base, candidate)
        assert (found.p_value, found.inherited.share > 0.99) == (0.01, True)


KINDS = {
    "fresh": (layer, {}),
    "upcycled": (upcycled, {"share": 0.7}),
    "of unlike numbers of experts": (layer, {"experts": 3}),
}


@pytest.mark.parametrize(("make", "settings"), first_of(KINDS))
def test_p_of_independent_models_is_uniform(make, settings):
    p_values = [
        compared(model(2 * seed, make, **settings), model(2 * seed + 1, upcycled if make is upcycled else layer, **(
            settings if make is upcycled else {}
        )), permutations=39, seed=seed).p_value
        for seed in range(100)
    ]  # fmt: skip
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_of_units_that_were_not_all_looked_at_few_that_are_found_are_not_called_unrelated():
    few = edited(CHILD, lambda one: one)
    for number, own in model(2).items():
        chosen = np.arange(len(own.weight)) % 25 > 0
        inner, outer = (
            np.where(chosen[:, None], getattr(own, side), getattr(few[number], side)) for side in ("inner", "outer")
        )
        few[number] = replace(shuffled(replace(few[number], inner=inner, outer=outer)), experts=(UNITS,) * EXPERTS)
    assert judge_framed(compared(BASE, few), Criteria()).word == "UNRELATED"
    part = {number: replace(one, kept=0.1) for number, one in few.items()}
    verdict = judge_framed(compared(BASE, part), Criteria())
    assert verdict.word == "UNDECIDED"
    assert "(10% of the units were compared)" in verdict.reason
