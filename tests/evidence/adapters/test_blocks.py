"""The rows of a product and the matrix that their gradient came through: whole, or as a few random sums."""

import numpy as np
import pytest

from hf_lineage.evidence.adapters.blocks import (
    DIRECTIONS,
    EXACT,
    FEWEST_DIRECTIONS,
    FEWEST_PROBES,
    PROBES,
    compressed,
    product_rows,
)
from tests.evidence.adapters.test_gradient_alignment import factors


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
