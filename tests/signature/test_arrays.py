"""Arrays: what NumPy and torch do differently gives the same numbers, and NumPy's way never needs torch.

Pieces of a stored matrix are widened into memory that is used again, in the order in which they are stored.
"""

import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch

from hf_lineage.signature import arrays
from hf_lineage.signature.arrays import sum_squares
from tests.terms import random

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
from hf_lineage.signature import arrays

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
