"""Probes: their shape, and what they take off a product."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature.products.probes import Probes, diagonal
from tests.terms import EXACT, WIDTH, random


def test_exact_ones_are_columns_of_the_identity_and_others_random_signs():
    exact, some = Probes.draw(EXACT, WIDTH), Probes.draw(EXACT, WIDTH, columns=slice(4, 8))
    sketched = Probes.draw(replace(EXACT, probes=3), WIDTH)
    assert [probes.shape for probes in (exact, some, sketched)] == [(WIDTH, WIDTH), (WIDTH, 4), (WIDTH, 3)]
    assert [probes.sketched for probes in (exact, some, sketched)] == [0, 0, 3]
    rows = random(5, WIDTH)
    np.testing.assert_array_equal(some.seen(rows), rows[:, 4:8])
    np.testing.assert_array_equal(sketched.seen(rows), rows @ sketched.matrix)


@pytest.mark.parametrize("count", [None, 3])
def test_the_identity_and_the_matrix_of_ones_are_taken_off_as_the_probes_see_them(count):
    probes = Probes.draw(replace(EXACT, probes=count), WIDTH)
    off = 2.0 * np.eye(WIDTH) + 0.5 * np.ones((WIDTH, WIDTH))
    product = probes.seen(random(WIDTH, WIDTH)).copy()
    probes.centre(product, 2.0, 0.5)
    np.testing.assert_allclose(product, probes.seen(random(WIDTH, WIDTH) - off.astype(np.float32)), atol=1e-5)


def test_a_diagonal_can_be_written():
    matrix = np.zeros((3, 2), np.float32)
    diagonal(matrix)[:] = 1
    assert matrix.tolist() == [[1, 0], [0, 1], [0, 0]]
