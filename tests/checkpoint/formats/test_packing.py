"""Packing: what is unpacked is what compressed-tensors unpacks, down the columns and across the rows."""

import numpy as np
import pytest
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.checkpoint.formats.packing import across, down, period, words
from tests.properties import cases


def numbers(bits, *shape):
    return np.random.default_rng(0).integers(0, 2**bits, shape)


def packed(matrix, bits, dimension):
    signed = torch.from_numpy(matrix - 2 ** (bits - 1)).to(torch.int8)
    return pack_to_int32(signed, bits, dimension).numpy()


@pytest.mark.parametrize(("bits", "length", "values"), [(2, 1, 16), (3, 3, 32), (4, 1, 8), (6, 3, 16), (8, 1, 4)])
def test_numbers_begin_with_a_word_again_after_a_period(bits, length, values):
    assert period(bits) == (length, values)
    assert words(values, bits) == length
    assert words(values + 1, bits) == length + 1


@given(bits=st.integers(1, 8), rows=st.integers(1, 80), columns=st.integers(1, 80), data=st.data())
@cases(150)
def test_some_rows_are_unpacked_from_either_direction(bits, rows, columns, data):
    matrix = numbers(bits, rows, columns)
    start = data.draw(st.integers(0, rows - 1))
    some = slice(start, data.draw(st.integers(start + 1, rows)))
    for unpack, dimension in ((down, 0), (across, 1)):
        target = np.empty(matrix[some].shape, np.float32)
        unpack(packed(matrix, bits, dimension), bits)(some, target)
        np.testing.assert_array_equal(target, matrix[some])


def test_the_numbers_of_a_word_may_stand_in_another_order():
    target = np.empty((1, 8), np.float32)
    across(np.array([[0x76543210]], np.int32), 4, (0, 2, 4, 6, 1, 3, 5, 7))(slice(0, 1), target)
    assert target.tolist() == [[0, 4, 1, 5, 2, 6, 3, 7]]
