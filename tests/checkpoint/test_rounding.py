"""A quantization is told by its grid, whatever shares a scale; trained weights and their storing formats show none."""

import ml_dtypes
import numpy as np
import pytest

from hf_lineage.checkpoint.rounding import DIGITS, find_grid, rounded, spacing

SHAPE = (96, 256)
FORMATS = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}
NF4 = np.array([-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0])
NF4 = np.concatenate([NF4, [0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]])


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


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("scheme", ["symmetric", "zero point"])
@pytest.mark.parametrize("group", [32, 128, SHAPE[1]])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_the_bits_of_a_quantization_are_found_in_what_it_leaves(weights, bits, group, scheme, dtype):
    grid = find_grid(stored(quantized(weights, bits, group, scheme), dtype), DIGITS[dtype])
    assert grid.levels.bits == bits


@pytest.mark.parametrize(("bits", "dtype"), [(2, "BF16"), (4, "BF16"), (6, "BF16"), (8, "F32")])
def test_so_are_those_of_one_for_which_zero_is_not_on_the_grid(weights, bits, dtype):
    grid = find_grid(stored(quantized(weights, bits, 32, "offset"), dtype), DIGITS[dtype])
    assert grid.levels.bits == bits


@pytest.mark.parametrize("bits", [4, 8])
def test_one_scale_for_the_whole_matrix_is_found(weights, bits):
    grid = find_grid(quantized(weights, bits, weights.size), DIGITS["F32"])
    assert grid.levels.bits == bits


def test_a_scale_for_each_column_is_found_as_well(weights):
    columns = np.ascontiguousarray(weights.T)
    grid = find_grid(quantized(columns, 8, SHAPE[0]).T, DIGITS["F32"])
    assert np.allclose(grid.step[0], np.abs(weights).max(axis=0) / 127, rtol=1e-5)


def test_a_table_of_unequal_steps_is_found_with_the_steps_around_each_number(weights):
    groups = weights.reshape(-1, 64)
    largest = np.abs(groups).max(axis=1, keepdims=True)
    nearest = NF4[np.abs((groups / largest)[..., None] - NF4).argmin(axis=-1)]
    grid = find_grid((nearest * largest).reshape(SHAPE).astype(np.float32), DIGITS["F32"])
    assert grid.levels.bits == 4
    assert np.all(np.abs(weights - (nearest * largest).reshape(SHAPE)) <= grid.step * 1.3)
    assert float((grid.step**2).mean() / 12) == pytest.approx(
        float(np.square(weights - (nearest * largest).reshape(SHAPE)).mean()), rel=0.25
    )


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_weights_that_nobody_quantized_lie_on_no_grid(seed, dtype):
    drawn = np.random.default_rng(seed).standard_t(5, size=SHAPE).astype(np.float32) * 0.02
    assert find_grid(stored(drawn, dtype), DIGITS[dtype]) is None


@pytest.mark.parametrize("matrix", [np.zeros((8, 64)), np.ones((64, 64)), np.full((3, 5), 2.0), np.eye(96)])
def test_a_matrix_without_many_values_is_no_grid_and_no_error(matrix):
    find_grid(matrix.astype(np.float32), DIGITS["F32"])


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_rounding_is_that_of_the_format(weights, dtype):
    assert np.array_equal(rounded(weights, DIGITS[dtype]), stored(weights, dtype))
    assert np.abs(rounded(weights, DIGITS[dtype]) - weights).max() <= spacing(weights, DIGITS[dtype]).max() / 2
