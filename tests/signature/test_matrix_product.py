"""A term is prepared piece by piece as it would be as a whole, and norms are right where squares are not."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature.matrix_product import Probes, row_norms
from tests.terms import EXACT, WIDTH, random


def test_the_norm_of_a_row_is_right_where_its_square_leaves_float32_or_is_no_number():
    for size in (1e-44, 1e-30, 1e-20, 1.0, 1e18, 1e30):
        rows = np.float32(size) * random(3, WIDTH)
        with np.errstate(all="ignore"):  # as in the workers
            np.testing.assert_allclose(row_norms(rows), np.linalg.norm(rows.astype(np.float64), axis=1), rtol=1e-6)
    rows = np.array([[0], [np.inf], [np.nan]], np.float32).repeat(WIDTH, axis=1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(row_norms(rows), [0, np.inf, np.nan])


@pytest.mark.parametrize("count", [None, 3])
def test_the_identity_and_the_matrix_of_ones_are_taken_off_as_the_probes_see_them(count):
    probes = Probes.draw(replace(EXACT, probes=count), WIDTH)
    off = 2.0 * np.eye(WIDTH) + 0.5 * np.ones((WIDTH, WIDTH))
    product = probes.project(random(WIDTH, WIDTH)).copy()
    probes.centre(product, 2.0, 0.5)
    np.testing.assert_allclose(product, probes.project(random(WIDTH, WIDTH) - off.astype(np.float32)), atol=1e-5)
