"""Rows of an adapter under permutations and flips: as many as are drawn give the p of all of them, sizes none."""

import itertools

import numpy as np
import pytest
from scipy.stats import kstest

from hf_lineage.lora import replicates
from hf_lineage.lora.gradient_alignment import trace
from hf_lineage.lora.replicates import (
    DIRECTIONS,
    EXACT,
    FEWEST_DIRECTIONS,
    FEWEST_PROBES,
    PROBES,
    block,
    compressed,
    product_rows,
)
from tests.lora.test_gradient_alignment import factors

COORDINATES, UNITS = "residual coordinates", "hidden units"


def ratio(written, through):
    """The statistic as the formula says, for one group: means are removed after rows were moved or flipped."""
    written, through = written - written.mean(axis=0), through - through.mean(axis=1, keepdims=True)
    return np.sum((through @ written) ** 2)


def sizes_alone(written, through):
    through = through - through.mean(axis=1, keepdims=True)
    return np.sum(np.sum(written**2, axis=1) * np.sum(through**2, axis=0))


def exhaustive(written, through, elements, centre):
    """The p-value over all of some elements, each a function of rows."""
    rows = [element(written) for element in elements]
    values = np.array([ratio(one, through) - sizes_alone(one - one.mean(axis=0) * centre, through) for one in rows])
    return np.mean(values >= values[0] - 1e-6 * np.abs(values[0]))


PERMUTED = [lambda rows, order=order: rows[list(order)] for order in itertools.permutations(range(6))]

FLIPS = [lambda rows, signs=signs: rows * np.array(signs)[:, None] for signs in itertools.product((1, -1), repeat=6)]


@pytest.mark.parametrize("seed", range(3))
def test_drawn_elements_give_the_p_of_all_of_them(monkeypatch, seed):
    """Six rows: all 720 permutations, all 64 flips, all 36 permutations within small and large ones."""
    monkeypatch.setattr(replicates, "FLIPPED", 1)
    random = np.random.default_rng(seed)
    written = random.normal(size=(6, 2)) + 1
    written *= np.array([1, 4, 1.3, 3, 1.2, 5])[:, None] / np.linalg.norm(written, axis=1, keepdims=True)
    through = (random.normal(size=(4, 2)) @ written.T + 3 * random.normal(size=(4, 6))).astype(np.float32)
    parts = written[None].astype(np.float32), through[None]
    free, bound = (trace([block("up", 0, UNITS, *parts, flips=flips)], 8000, 0) for flips in (True, False))
    expected = [exhaustive(written, through, PERMUTED, 1), exhaustive(written, through, FLIPS, 0)]
    assert free.p_values == pytest.approx(expected, abs=0.02)
    kept = [element for element in PERMUTED if {*element(np.arange(6))[[0, 2, 4]]} == {0, 2, 4}]
    assert bound.p_values == pytest.approx([exhaustive(written, through, kept, 1)] * 2, abs=0.02)


def in_order_of_size(random, flips):
    """A block of an adapter and an independent base, both of whose rows fall off with their rank."""
    sizes = np.arange(1, 41)[:, None] ** (-1.0 if flips else -0.4)
    written, through = ((random.normal(size=(40, q)) * sizes).astype(np.float32) for q in (3, 12))
    return [block("down", 0, COORDINATES, written[None], through.T[None], flips=flips)]


@pytest.mark.parametrize("flips", [True, False], ids=["signs", "strata"])
def test_sorted_rows_of_independent_pairs_show_nothing(flips):
    random = np.random.default_rng(11)
    pairs = [trace(in_order_of_size(random, flips), 99, seed) for seed in range(200)]
    assert kstest([one.p_values[1] for one in pairs], "uniform").pvalue > 0.01
    assert np.mean([one.p_value <= 0.05 for one in pairs]) <= 0.1
    if flips:  # all permutations would show what is not there
        assert np.mean([one.p_values[0] <= 0.05 for one in pairs]) > 0.2


def test_rows_of_both_kinds_together_are_permuted_alike_and_then_flipped():
    """Up and gate have the same units, so that one permutation within strata serves both, and flips are added to it."""
    random = np.random.default_rng(0)
    up, gate = (random.normal(size=(1, 32, 3)).astype(np.float32) for _ in range(2))
    through = random.normal(size=(1, 5, 32)).astype(np.float32)
    flipping = trace([block("up", 0, UNITS, up, through, flips=True), block("gate", 0, UNITS, gate, through)], 50, 0)
    assert np.array_equal(flipping.ratios[:, 1], flipping.flipped[:, 1])
    assert np.allclose(flipping.ratios[0], flipping.flipped[0], atol=0.2)
    assert not np.allclose(flipping.ratios[1:, 0], flipping.flipped[1:, 0])


def test_rows_of_a_product_have_its_singular_values():
    second, first = factors(rank=3)
    rows = product_rows(second, first)
    _, singular, _ = np.linalg.svd(second @ first)
    assert rows.shape == (40, 3)
    assert np.allclose(np.square(rows).sum(axis=0), singular[:3] / singular[0], rtol=1e-4)


def test_a_product_that_is_zero_has_no_rows():
    second, first = factors()
    assert product_rows(0 * second, first).shape == (40, 0)
    assert product_rows(second, 0 * first).shape == (40, 0)


@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_factors_at_the_ends_of_float32_give_the_same_rows(scale):
    second, first = factors()
    scaled = product_rows(second * np.float32(scale), first * np.float32(scale))
    assert np.allclose(np.abs(scaled), np.abs(product_rows(second, first)), atol=1e-4)


def test_of_a_large_rank_the_strongest_directions_are_taken_fewer_of_many_rows():
    assert product_rows(*factors(rows=90, columns=80, rank=70)).shape == (90, DIRECTIONS)
    assert product_rows(*factors(rows=20_000, columns=80, rank=70)).shape == (20_000, FEWEST_DIRECTIONS)


def test_a_matrix_of_few_columns_is_seen_with_its_whole_gram_matrix():
    random = np.random.default_rng(0)
    parts = [random.normal(size=(2, rows, 5)).astype(np.float32) for rows in (40, 3)]
    seen = compressed([(part, 1.0) for part in parts], "up")
    assert seen.shape == (2, 5, 5)
    assert np.allclose(seen.mT @ seen, sum(part.mT @ part for part in parts), rtol=1e-4)


def test_of_a_wide_matrix_random_sums_of_rows_are_seen_fewer_the_wider_it_is():
    random = np.random.default_rng(0)
    large = random.normal(size=(1, 4000, EXACT + 1)).astype(np.float32)
    seen = compressed([(large, 1.0)], "up")
    assert seen.shape == (1, PROBES, EXACT + 1)
    assert np.linalg.norm(seen[0]) == pytest.approx(np.linalg.norm(large[0]), rel=0.05)
    assert np.array_equal(seen, compressed([(large, 1.0)], "up"))
    assert not np.array_equal(seen, compressed([(large, 1.0)], "down"))
    assert np.allclose(compressed([(large, 0.5)], "up"), 0.5 * seen, atol=1e-3)
    assert not np.allclose(compressed([(large, 1.0), (large, 1.0)], "up"), 2 * seen, atol=1e-3)
    assert compressed([(large[:, :3].repeat(160, axis=2), 1.0)], "up").shape == (1, FEWEST_PROBES, 160 * (EXACT + 1))
