"""Pieces of a stored matrix are widened into memory that is used again, in the order in which they are stored."""

import ml_dtypes
import numpy as np

from hf_lineage.signature.computing.scratch import Scratch

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
