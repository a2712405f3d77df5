"""Matrix product: what NumPy and torch do differently gives the same numbers, and NumPy's way never needs torch."""

import subprocess
import sys
import warnings
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch

from hf_lineage.signature import matrix_product as arrays
from hf_lineage.signature.coordinates import sum_squares
from hf_lineage.signature.matrix_product import Probes, row_norms
from tests.terms import EXACT, WIDTH, random

TORCH = "cpu:0"
"""Torch on the CPU, which computes as it does on a GPU; copying from pinned memory alone needs a GPU."""
FORMATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (4, 3), (2, 3, 4)])
def test_a_tensor_has_the_bytes_the_format_and_the_shape_of_the_array(dtype, shape):
    array = (8 * random(*shape)).astype(dtype)
    tensor = arrays.on_device(array, TORCH)
    assert (tuple(tensor.shape), str(tensor.dtype)) == (shape, f"torch.{np.dtype(dtype)}")
    assert tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() == array.tobytes()


MATRIX, SHARED = random(5, 4), np.broadcast_to(random(4), (3, 4))


@pytest.mark.parametrize("array", [MATRIX.T, MATRIX[:, 1:3], MATRIX[::2], SHARED, SHARED[0]])
def test_a_view_is_moved_as_what_it_shows_without_a_warning_also_if_it_cannot_be_written(array):
    with warnings.catch_warnings(action="error"):
        tensor = arrays.on_device(array, TORCH)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(array, arrays.on_host(tensor), strict=True)


WITHOUT_TORCH = """
import sys
import numpy as np
from hf_lineage.signature import matrix_product as arrays

matrix, row = np.ones((3, 4), np.float32), np.zeros(2, np.int64)
for one in (matrix, matrix.T):
    arrays.on_host(one), arrays.as_kind_of(one, row), arrays.on_device(one, "cpu"), arrays.by_columns(one)
    arrays.zeros((2, 3), one), arrays.Scratch(one.size, one).widen(one)
    arrays.dots(one, one), arrays.columns(one, row), arrays.largest(one)
sys.exit("torch" in sys.modules)
"""


def test_numpys_way_imports_no_torch():
    assert subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=False).returncode == 0


@pytest.mark.parametrize("width", [3, 256, 300])
def test_the_squares_of_some_rows_add_up_to_that_of_all(width):
    rows = np.random.default_rng(0).normal(size=(500, width)).astype(np.float32)
    square = sum_squares((rows[:200], rows[200:201], rows[201:]), width)
    np.testing.assert_allclose(square, rows.T.astype(float) @ rows, atol=2e-3)
    np.testing.assert_array_equal(square, square.T)


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
