"""Looks: no run of layers is long overlooked, and UNRELATED waits until a graft would have been seen."""

import itertools
import math

import numpy as np
import pytest
from hf_lineage.looks import FIRST, GRAFT, MISSED, enough, looks, reading_order

DEPTHS = range(1, 200)


def test_every_layer_is_read_once():
    assert all(sorted(reading_order(layers)) == list(range(layers)) for layers in DEPTHS)


@pytest.mark.parametrize("layers", [2**n for n in range(8)])
def test_the_first_layers_meet_every_run_of_adjacent_ones(layers):
    for read in itertools.takewhile(lambda read: read <= layers, (2**n for n in range(8))):
        chosen = set(reading_order(layers)[:read])
        runs = (range(start, start + layers // read) for start in range(layers - layers // read + 1))
        assert all(chosen & set(run) for run in runs)


def test_no_graft_of_adjacent_layers_is_missed_before_unrelated_is_said():
    for layers in DEPTHS:
        chosen, graft = set(reading_order(layers)[: enough(layers)]), math.ceil(GRAFT * layers)
        runs = (range(start, start + graft) for start in range(layers - graft + 1))
        assert all(chosen & set(run) for run in runs), layers


def test_a_graft_of_random_layers_is_missed_as_rarely_as_is_said():
    generator = np.random.default_rng(0)
    for layers in (16, 32, 80):
        chosen, graft = list(reading_order(layers)[: enough(layers)]), math.ceil(GRAFT * layers)
        drawn = np.array([generator.permutation(layers)[:graft] for _ in range(20_000)])
        missed = ~np.isin(drawn, chosen).any(axis=1)
        assert missed.mean() <= MISSED * 1.2
        assert enough(layers) < layers / 2 + 4


def test_a_model_of_few_layers_is_read_as_a_whole():
    assert [looks(layers) for layers in (1, 2 * FIRST - 1)] == [(1,), (7,)]
    assert all(looks(layers)[-1] == layers for layers in DEPTHS)
