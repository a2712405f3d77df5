"""Of layers with very many units some are kept: in the same places of all experts, or those that write most."""

import numpy as np

from hf_lineage.architecture.matrix_sets import Heads, LayerSet
from hf_lineage.signature.units.subsample import everything, experts_of, heaviest, in_the_same_places

WEIGHTS = [np.arange(1.0, 41), np.arange(41.0, 81), np.full(20, 100.0)]


def numbers(kept):
    return [part.tolist() for part in kept]


def a_set(units, stacked=()):
    return LayerSet({}, None, None, None, heads={"up": Heads(units, 1)}, stacked=stacked)


def test_units_are_kept_in_the_same_places_of_experts_of_one_size():
    assert numbers(in_the_same_places(100, 0)(WEIGHTS)) == numbers(everything(WEIGHTS))
    kept = numbers(in_the_same_places(50, 0)(WEIGHTS))
    assert (kept[0], len(kept[0]), len(kept[2])) == (kept[1], 20, 10)
    assert set(numbers(in_the_same_places(30, 0)(WEIGHTS))[0]) < set(kept[0])
    assert numbers(in_the_same_places(50, 1)(WEIGHTS)) != kept


def test_a_layer_without_experts_is_kept_whole():
    assert numbers(in_the_same_places(10, 0)(WEIGHTS[:1])) == [list(range(40))]


def test_the_heaviest_are_kept_whichever_expert_they_belong_to():
    assert numbers(heaviest(22)(WEIGHTS)) == [[], [38, 39], list(range(20))]
    assert numbers(heaviest(100)(WEIGHTS)) == numbers(everything(WEIGHTS))


def test_a_layer_is_one_part_a_stack_one_for_each_expert_and_shared_experts_are_as_large_as_the_others():
    assert experts_of([a_set(48)]) == ((48,),)
    assert experts_of([a_set(48, (3,)), a_set(96)]) == ((48, 48, 48), (48, 48))
    assert experts_of([a_set(48), a_set(48), a_set(50)]) == ((48,), (48,), (50,))
    assert experts_of([a_set(8), a_set(64)]) == ((8,), (64,))
