"""A quantization is told by its grid, whatever shares a scale; trained weights and their storing formats show none."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from hf_lineage.checkpoint.formats.grid import NF4
from hf_lineage.checkpoint.rounding import DIGITS, find_grid, round_digits, spacing

SHAPE = (96, 256)
FORMATS = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}
ALL = SHAPE[0] * SHAPE[1]
CASES = [*itertools.product((2, 3, 4, 5, 6, 8), (32, 128, SHAPE[1]), ("symmetric", "zero point"), ("F32", "BF16"))]
CASES += [(bits, 32, "offset", dtype) for bits, dtype in ((2, "BF16"), (4, "BF16"), (6, "BF16"), (8, "F32"))]
CASES += [(bits, ALL, "symmetric", "F32") for bits in (4, 8)]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(size=SHAPE).astype(np.float32) * 0.02


def stored(matrix, dtype):
    return matrix.astype(FORMATS[dtype]).astype(np.float32)


def quantized(matrix, bits, group, scheme="symmetric"):
    groups = matrix.reshape(-1, group)
    least, most = groups.min(axis=1, keepdims=True), groups.max(axis=1, keepdims=True)
    if scheme == "symmetric":
        step, zero = np.maximum(-least, most) / (2 ** (bits - 1) - 1), 0
    else:
        step = (most - least) / (2**bits - 1)
        zero = least if scheme == "offset" else np.rint(least / step) * step
    return (np.rint((groups - zero) / step) * step + zero).reshape(matrix.shape).astype(np.float32)


@pytest.mark.parametrize(("bits", "group", "scheme", "dtype"), CASES)
def test_the_bits_of_a_quantization_are_found_in_what_it_leaves(weights, bits, group, scheme, dtype):
    """Also where zero is not on the grid, and where one scale is for the whole matrix."""
    grid = find_grid(stored(quantized(weights, bits, group, scheme), dtype), DIGITS[dtype])
    assert grid.levels.bits == bits


def test_scales_of_columns_and_tables_of_unequal_steps_are_found_as_well(weights):
    columns = np.ascontiguousarray(weights.T)
    grid = find_grid(quantized(columns, 8, SHAPE[0]).T, DIGITS["F32"])
    assert np.allclose(grid.step[0], np.abs(weights).max(axis=0) / 127, rtol=1e-5)
    groups = weights.reshape(-1, 64)
    largest = np.abs(groups).max(axis=1, keepdims=True)
    nearest = np.array(NF4)[np.abs((groups / largest)[..., None] - NF4).argmin(axis=-1)]
    matrix = (nearest * largest).reshape(SHAPE).astype(np.float32)
    grid = find_grid(matrix, DIGITS["F32"])
    assert grid.levels.bits == 4
    assert np.all(np.abs(weights - matrix) <= grid.step * 1.3), "the steps are those around each number"
    moved = float(np.square(weights - matrix).mean())
    assert float((grid.step**2).mean() / 12) == pytest.approx(moved, rel=0.25)
    for few in (np.zeros((8, 64)), np.ones((64, 64)), np.full((3, 5), 2.0), np.eye(96)):
        find_grid(few.astype(np.float32), DIGITS["F32"])  # is no error


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_weights_that_nobody_quantized_lie_on_no_grid(seed, dtype):
    drawn = np.random.default_rng(seed).standard_t(5, size=SHAPE).astype(np.float32) * 0.02
    assert find_grid(stored(drawn, dtype), DIGITS[dtype]) is None


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_rounding_is_that_of_the_format(weights, dtype):
    assert np.array_equal(round_digits(weights, DIGITS[dtype]), stored(weights, dtype))
    assert np.abs(round_digits(weights, DIGITS[dtype]) - weights).max() <= spacing(weights, DIGITS[dtype]).max() / 2
