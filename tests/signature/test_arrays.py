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
from hf_lineage.signature.arrays import Scratch, mirror, sum_squares
from tests.terms import branch, random

TORCH = "cpu:0"
"""Torch on the CPU, which computes as it does on a GPU; copying from pinned memory alone needs a GPU."""

ORDERS = {"by rows": np.ascontiguousarray, "by columns": np.asfortranarray}

orders = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)

others = pytest.mark.parametrize("other", ORDERS.values(), ids=ORDERS)

FORMATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_]


def on_torch(array):
    """The same values as a tensor, the numbers in memory in the same order."""
    if array.ndim == 2 and not array.flags.c_contiguous:
        return arrays.on_device(array.T, TORCH).T
    return arrays.on_device(array, TORCH)


def same(found, tensor, **tolerance):
    """Assert that an array and a tensor hold the same numbers in the same shape and format."""
    assert isinstance(found, np.ndarray)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(found, arrays.on_host(tensor), **{"rtol": 0} | tolerance, strict=True)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (4, 3), (2, 3, 4)])
def test_a_tensor_has_the_bytes_the_format_and_the_shape_of_the_array(dtype, shape):
    array = (8 * random(*shape)).astype(dtype)
    tensor = arrays.on_device(array, TORCH)
    assert (tuple(tensor.shape), str(tensor.dtype)) == (shape, f"torch.{np.dtype(dtype)}")
    assert tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("view", [lambda matrix: matrix.T, lambda matrix: matrix[:, 1:3], lambda matrix: matrix[::2]])
def test_a_view_is_moved_as_what_it_shows(view):
    array = view(random(5, 4))
    same(array, arrays.on_device(array, TORCH))


def test_what_cannot_be_written_is_moved_without_a_warning():
    shared = np.broadcast_to(random(4), (3, 4))
    with warnings.catch_warnings(action="error"):
        same(shared, arrays.on_device(shared, TORCH))
        same(shared[0], arrays.on_device(shared[0], TORCH))


def test_on_the_cpu_numpy_computes_on_the_array_itself():
    array = random(3, 4).T
    assert arrays.on_device(array, "cpu") is array
    assert arrays.on_host(array) is array
    assert arrays.beside(array, random(2)) is array


def test_what_stands_beside_a_tensor_is_one_on_its_device():
    other = on_torch(random(2))
    beside = arrays.beside(random(3), other)
    same(random(3), beside)
    assert beside.device == other.device


def test_new_arrays_are_in_float32_whatever_they_are_like():
    for like in (random(2).astype(np.float16), np.arange(2)):
        tensor = on_torch(like)
        same(arrays.zeros((2, 3), like), arrays.zeros((2, 3), tensor))
        assert arrays.empty((2, 3), like).dtype == np.float32
        assert arrays.empty((2, 3), tensor).dtype == torch.float32
        assert arrays.empty((2, 3), tensor).device == tensor.device


@orders
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_stored_numbers_become_the_same_in_float32(order, dtype):
    stored = order((100 * random(5, 4)).astype(dtype))
    target, tensor = np.empty((5, 4), np.float32), torch.empty(5, 4)
    arrays.fill(target, stored)
    arrays.fill(tensor, on_torch(stored))
    same(target, tensor)
    np.testing.assert_array_equal(target, stored.astype(np.float32))


@orders
def test_the_order_in_memory_is_seen(order):
    matrix = order(random(5, 4))
    assert arrays.by_columns(matrix) == (order is np.asfortranarray) == arrays.by_columns(on_torch(matrix))
    assert not arrays.by_columns(np.ascontiguousarray(random(5, 1)))
    assert not arrays.by_columns(on_torch(random(5, 1)))


@orders
@others
def test_inner_products_of_rows_are_the_same(order, other):
    one, two = order(random(7, 40)), other(random(7, 40, seed=1))
    found = arrays.dots(one, two)
    same(found, arrays.dots(on_torch(one), on_torch(two)), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found, (one.astype(np.float64) * two).sum(axis=1), rtol=1e-6, atol=1e-5)


@orders
def test_chosen_columns_are_the_same(order):
    rows, chosen = order(random(5, 9)), np.array([8, 0, 3])
    found = arrays.columns(rows, chosen)
    same(found, arrays.columns(on_torch(rows), on_torch(chosen)))
    np.testing.assert_array_equal(found, rows[:, chosen])


@orders
def test_the_largest_of_every_row_is_the_same_and_numpys(order):
    rows = order(random(5, 9))
    rows[2] = 0
    found, of_tensor = arrays.largest(rows), arrays.largest(on_torch(rows))
    assert found.dtype == of_tensor.dtype == np.float64
    np.testing.assert_array_equal(found, of_tensor)
    np.testing.assert_array_equal(found, abs(rows).max(axis=1))


def test_a_term_is_moved_with_everything_that_its_tiles_are_made_of():
    gains = {name: random(10, seed=seed) for seed, name in enumerate(("writer_gain", "reader_gain"), 5)}
    (plain,) = branch(hidden=23, unit_gain=random(23, seed=9), centred=True, **gains)
    moved = plain.on(TORCH)
    for tile, other in zip(plain.tiles(), moved.tiles(), strict=True):
        assert tile.units == other.units
        same(tile.out, other.out, atol=1e-6)
        same(tile.inn, other.inn, atol=1e-6)
    np.testing.assert_allclose(plain.out, moved.out, atol=1e-6, strict=True)


WITHOUT_TORCH = """
import sys
import numpy as np
from hf_lineage.signature import arrays

matrix, row = np.ones((3, 4), np.float32), np.zeros(2, np.int64)
for one in (matrix, matrix.T):
    arrays.on_host(one), arrays.beside(one, row), arrays.on_device(one, "cpu"), arrays.by_columns(one)
    arrays.zeros((2, 3), one), arrays.fill(arrays.empty(one.shape, one), one)
    arrays.dots(one, one), arrays.columns(one, row), arrays.largest(one)
sys.exit("torch" in sys.modules)
"""


def test_numpys_way_imports_no_torch():
    assert subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=False).returncode == 0


STORED = np.arange(12, dtype=np.float32).reshape(3, 4).astype(ml_dtypes.bfloat16)


def test_rows_are_widened_into_the_same_memory_each_time():
    scratch = Scratch(8, np.empty(0, np.float32))
    first = scratch.rows(STORED, slice(0, 2))
    assert (first.dtype, first.tolist()) == (np.float32, [[0, 1, 2, 3], [4, 5, 6, 7]])
    second = scratch.rows(STORED, slice(1, 3))
    assert np.shares_memory(first, second)
    assert second[1].tolist() == [8, 9, 10, 11]


def test_a_matrix_that_is_stored_by_columns_stays_so():
    wide = Scratch(12, np.empty(0, np.float32)).widened(STORED.T)
    assert wide.tolist() == STORED.astype(np.float32).T.tolist()
    assert wide.strides[0] == wide.itemsize


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
