"""The square of rows that come some at a time is that of all rows together."""

import numpy as np
import pytest

from hf_lineage.signature.computing import mirror, sum_squares


@pytest.mark.parametrize("width", [3, 256, 300])
def test_the_squares_of_some_rows_add_up_to_that_of_all(width):
    rows = np.random.default_rng(0).normal(size=(500, width)).astype(np.float32)
    square = sum_squares((rows[:200], rows[200:201], rows[201:]), width)
    np.testing.assert_allclose(square, rows.T.astype(float) @ rows, atol=2e-3)
    np.testing.assert_array_equal(square, square.T)


def test_no_rows_have_a_square_of_zeros():
    assert not sum_squares((), 4).any()


def test_only_what_is_above_the_diagonal_counts():
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    mirror(square)
    assert square.tolist() == [[0, 1, 2], [1, 4, 5], [2, 5, 8]]
