"""FP4: sixteen numbers, two to a byte, and scales that are powers of two."""

import ml_dtypes
import numpy as np
import pytest

from hf_lineage.checkpoint.formats.fp4 import E2M1, PAIRS, exponents, pairs, write_pairs

BYTES = np.arange(256, dtype=np.uint8)


def test_the_sixteen_numbers_are_those_of_ml_dtypes():
    np.testing.assert_array_equal(E2M1, np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(float))


@pytest.mark.parametrize("low_first", [True, False])
def test_a_byte_is_two_numbers(low_first):
    target = np.empty((2, 256), np.float32)
    write_pairs(pairs(low_first, *E2M1), BYTES.reshape(2, 128), target)
    first, second = (BYTES & 15, BYTES >> 4) if low_first else (BYTES >> 4, BYTES & 15)
    assert target.ravel().tolist() == [E2M1[half] for both in zip(first, second, strict=True) for half in both]


def test_bytes_with_a_sign_are_read_alike():
    target = np.empty(512, np.float32)
    write_pairs(PAIRS, BYTES.view(np.int8), target)
    assert target[2 * 0x2F :][:2].tolist() == [-6.0, 1.0]


def test_powers_of_two_are_those_of_ml_dtypes():
    np.testing.assert_array_equal(exponents(BYTES), BYTES.view(ml_dtypes.float8_e8m0fnu).astype(np.float32))
