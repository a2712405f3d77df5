"""Interim analyses: nobody can foresee what is read first, and what is not read is bounded, not guessed."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from hf_lineage.evidence.nulls.interim_analyses import (
    FEWEST_LAYERS,
    MISSED,
    analyses,
    at_least,
    drawn_seed,
    enough,
    fewest,
    graft,
    reading_order,
)

DEPTHS = range(1, 200)


def tail(hits, read, inherited, layers):
    """Probability that as many of the layers read are inherited, or more, by adding up what can happen."""
    ways = (math.comb(inherited, hit) * math.comb(layers - inherited, read - hit) for hit in range(hits, read + 1))
    return Fraction(sum(ways), math.comb(layers, read))


def test_every_layer_is_read_once():
    assert all(sorted(reading_order(layers, seed=0)) == list(range(layers)) for layers in DEPTHS)


def test_the_order_of_a_seed_is_the_same_for_ever():
    assert reading_order(8, seed=0) == (3, 0, 7, 2, 1, 6, 4, 5)
    assert reading_order(8, seed=1) != reading_order(8, seed=0)


def test_every_layer_is_among_the_first_as_often_as_any_other():
    counts = np.zeros(16)
    for seed in range(4000):
        counts[list(reading_order(16, seed)[:4])] += 1
    # Expected 1000 each, with a standard deviation of 27.
    assert (np.abs(counts - 1000) < 5 * 27).all(), counts


def test_nobody_can_foresee_the_seed():
    assert len({drawn_seed() for _ in range(100)}) > 95


@pytest.mark.parametrize("layers", [1, 2, 5, 8, 12, 13])
def test_the_bound_is_what_counting_every_way_to_draw_layers_gives(layers):
    for read in range(1, layers + 1):
        draws = list(itertools.combinations(range(layers), read))
        for hits in range(read + 1):
            possible = [
                inherited
                for inherited in range(hits, layers - (read - hits) + 1)
                if sum(sum(layer < inherited for layer in drawn) >= hits for drawn in draws) > MISSED * len(draws)
            ]
            assert at_least(hits, read, layers) == min(possible), (layers, read, hits)


@pytest.mark.parametrize("layers", [24, 32, 80, 126])
def test_the_bound_inverts_the_hypergeometric_distribution(layers):
    for read in range(1, layers + 1, 3):
        for hits in range(1, read + 1):
            least = at_least(hits, read, layers)
            assert tail(hits, read, least, layers) > MISSED
            assert least == hits or tail(hits, read, least - 1, layers) <= MISSED


@pytest.mark.parametrize("layers", [8, 12, 16, 24, 32, 80])
def test_whoever_copies_any_fixed_set_of_layers_is_verified_early_with_one_percent_at_most(layers):
    """Half of the layers or fewer, whichever they are: the order is drawn afterwards, so that only their number counts.

    At an analysis after t layers the bound is above one half for as many hits as `needed`, or more.
    """
    for read in analyses(layers, 0.5)[:-1]:
        needed = next((hits for hits in range(1, read + 1) if at_least(hits, read, layers) > layers / 2), None)
        assert needed is not None
        assert max(tail(needed, read, copied, layers) for copied in range(layers // 2 + 1)) <= MISSED


def test_the_same_by_every_order_there_is():
    """Eight layers, of which any four are copied: every order of reading is tried."""
    layers, copied = 8, {0, 2, 4, 6}
    (early, *_), orders = analyses(layers, 0.5), 0
    fooled = 0
    for order in itertools.permutations(range(layers)):
        orders += 1
        fooled += at_least(sum(layer in copied for layer in order[:early]), early, layers) > layers / 2
    assert fooled / orders <= MISSED


def test_the_first_analysis_comes_after_the_fewest_layers_that_bound_the_share():
    assert {layers: fewest(layers, 0.5) for layers in (12, 24, 32, 80)} == {12: 5, 24: 6, 32: 6, 80: 7}
    for layers, share in itertools.product((8, 24, 32, 80), (0.25, 0.5, 0.75, 0.9)):
        read = fewest(layers, share)
        assert at_least(read, read, layers) > share * layers
        assert at_least(read - 1, read - 1, layers) <= share * layers or read == 1


def test_a_graft_is_missed_as_rarely_as_is_claimed():
    for layers in DEPTHS:
        copied, read = graft(layers), enough(layers)
        assert 1 - tail(1, read, copied, layers) <= MISSED
        assert read == 1 or 1 - tail(1, read - 1, copied, layers) > MISSED


def test_the_last_layers_are_read_where_fewer_are_left_than_are_looked_for():
    assert {layers: analyses(layers, 0.5) for layers in (8, 9, 12, 32)} == {
        8: (5, 8),
        9: (4, 9),
        12: (5, 9, 12),
        32: (6, 13, 32),
    }


@pytest.mark.long
def test_a_model_of_few_layers_is_read_as_a_whole():
    assert [analyses(layers, 0.5) for layers in (1, FEWEST_LAYERS - 1)] == [(1,), (7,)]
    assert all(analyses(layers, 0.5)[-1] == layers for layers in DEPTHS)
    assert all(len(set(analyses(layers, share))) <= 3 for layers in DEPTHS for share in (0.1, 0.5, 0.99))
