"""The grid: blocks of a matrix, each with its own scale, unpacked as compressed-tensors unpacks them."""

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.checkpoint.formats import grid
from hf_lineage.errors import CheckpointError
from tests.properties import cases

BYTES = np.arange(256, dtype=np.uint8)


def numbers(bits, *shape):
    return np.random.default_rng(0).integers(0, 2**bits, shape)


def packed(matrix, bits, dimension):
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    signed = torch.from_numpy(matrix - 2 ** (bits - 1)).to(torch.int8)
    return pack_to_int32(signed, bits, dimension).numpy()


@given(bits=st.integers(1, 8), rows=st.integers(1, 80), columns=st.integers(1, 80), data=st.data())
@cases(150)
def test_some_rows_are_unpacked_from_either_direction(bits, rows, columns, data):
    matrix = numbers(bits, rows, columns)
    start = data.draw(st.integers(0, rows - 1))
    some = slice(start, data.draw(st.integers(start + 1, rows)))
    for unpack, dimension in ((grid.down, 0), (grid.across, 1)):
        target = np.empty(matrix[some].shape, np.float32)
        unpack(packed(matrix, bits, dimension), bits)(some, target)
        np.testing.assert_array_equal(target, matrix[some])


@pytest.mark.parametrize("low_first", [True, False])
def test_a_byte_is_two_numbers_of_ml_dtypes_of_which_usually_the_lower_comes_first(low_first):
    np.testing.assert_array_equal(grid.E2M1, np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(float))
    target, signed, usual = (np.empty(size, np.float32) for size in ((2, 256), 512, 2))
    grid.write_pairs(grid.pairs(low_first, *grid.E2M1), BYTES.reshape(2, 128), target)
    first, second = (BYTES & 15, BYTES >> 4) if low_first else (BYTES >> 4, BYTES & 15)
    assert target.ravel().tolist() == [grid.E2M1[half] for both in zip(first, second, strict=True) for half in both]
    grid.write_pairs(grid.pairs(low_first, *grid.E2M1), BYTES.view(np.int8), signed)
    np.testing.assert_array_equal(signed, target.ravel())
    grid.write_pairs(grid.PAIRS, np.array([0x2F], np.int8), usual)
    assert usual.tolist() == [-6.0, 1.0]


def expected(numbers, block, scales, zeros):
    of = [[(i // block[0], j // block[1]) for j in range(numbers.shape[1])] for i in range(len(numbers))]
    return [[(x - zeros[at]) * scales[at] for x, at in zip(*row, strict=True)] for row in zip(numbers, of, strict=True)]


@pytest.mark.parametrize("at_once", [1, 20, 2**19])
@pytest.mark.parametrize("block", [(1, 4), (2, 3), (3, 100), (100, 5), (1, 1), (100, 100)])
@pytest.mark.parametrize("shape", [(7, 10), (8, 12), (1, 1), (64, 3)])
def test_every_number_has_the_scale_and_zero_point_of_its_block(shape, block, at_once, monkeypatch):
    monkeypatch.setattr(grid, "AT_ONCE", at_once)
    random, blocks = np.random.default_rng(0), grid.Grid(shape, block)
    numbers, scales, zeros = (random.integers(-8, 8, size).astype(np.float32) for size in (shape, *2 * [blocks.cells]))

    def unpack(rows, target):
        target[...] = numbers[rows]

    np.testing.assert_array_equal(blocks.decode(unpack, scales, zeros), expected(numbers, block, scales, zeros))
    np.testing.assert_array_equal(blocks.decode(unpack, scales), expected(numbers, block, scales, 0 * zeros))


def test_columns_and_numbers_may_stand_in_another_order_and_scales_are_finite():
    def decode(*sizes, **turned):
        return grid.Grid(*sizes, **turned).decode(lambda rows, target: target.fill(1), scales)

    scales = np.array([[2, 3], [5, 7]], np.float32)
    order = np.array([1, 0, 1, 0])
    np.testing.assert_array_equal(decode((2, 4), (1, 2), columns=order), [[3, 2, 3, 2], [7, 5, 7, 5]])
    scales = scales.T
    np.testing.assert_array_equal(decode((4, 2), (2, 1), rows=order), [[3, 7], [2, 5], [3, 7], [2, 5]])
    powers = BYTES[:255].view(ml_dtypes.float8_e8m0fnu)
    np.testing.assert_array_equal(grid.finite("", BYTES[:255]), powers.astype(np.float32))
    assert grid.finite("", np.array([0.5], np.float16)).dtype == np.float32
    for odd in (BYTES, *(np.array([1, number], np.float16) for number in (np.inf, -np.inf, np.nan))):
        with pytest.raises(CheckpointError, match=r"up_proj\.scales holds scales that are not finite"):
            grid.finite("up_proj.scales", odd)
    for bits, length, values in ((2, 1, 16), (3, 3, 32), (4, 1, 8), (6, 3, 16), (8, 1, 4)):
        assert grid.period(bits) == (length, values)
        assert (grid.words(values, bits), grid.words(values + 1, bits)) == (length, length + 1)
    target = np.empty((1, 8), np.float32)
    grid.across(np.array([[0x76543210]], np.int32), 4, (0, 2, 4, 6, 1, 3, 5, 7))(slice(0, 1), target)
    assert target.tolist() == [[0, 4, 1, 5, 2, 6, 3, 7]]
