"""The grid that stored numbers are chosen from, found by decoding the least code and the largest everywhere."""

import numpy as np
import pytest

from hf_lineage.checkpoint.codes import (
    HALF,
    ROUNDED,
    filled,
    filled_ends,
    least,
    slack,
    stepped,
    table,
    uniform,
    within_blocks,
)


def test_the_steps_of_a_uniform_grid_are_equal_and_those_of_a_table_are_not():
    assert uniform(5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert table([6, -6, 0, -0.0, 3]).tolist() == [0.0, 0.5, 0.75, 1.0]


def test_one_part_is_filled_and_the_others_stay():
    parts = [np.array([[1, -2]], np.int8), np.array([0.5], np.float32)]
    low, high = (fill(parts) for fill in filled_ends(0, 0x80, 0x7F))
    assert (low[0].tolist(), high[0].tolist()) == ([[-128, -128]], [[127, 127]])
    assert low[1] is parts[1]
    assert filled(0, 0)(parts)[0].dtype == np.int8
    assert parts[0].tolist() == [[1, -2]]


def test_bytes_move_by_a_step_as_far_as_they_go():
    parts = [np.array([0, 7, 255], np.uint8)]
    assert [stepped(0, step)(parts)[0].tolist() for step in (-1, 1)] == [[0, 6, 254], [1, 8, 255]]


def test_patterns_are_written_into_every_block():
    stored = np.arange(12, dtype=np.uint8).reshape(2, 6)
    filled_blocks = within_blocks(3, (1, b"\xaa\xbb"))([stored])[0]
    assert filled_blocks.tolist() == [[0, 0xAA, 0xBB, 3, 0xAA, 0xBB], [6, 0xAA, 0xBB, 9, 0xAA, 0xBB]]


@pytest.mark.parametrize(("dtype", "more"), [("F32", 3.1e-5), ("F16", 0.125), ("BF16", 1.0), ("F8_E4M3", 0.0)])
def test_scales_with_few_digits_leave_more_beside_half_a_step(dtype, more):
    assert slack(uniform(256), dtype) == pytest.approx(ROUNDED + more, abs=1e-3)


def test_the_smallest_scales_of_float16_leave_more_whatever_the_grid():
    assert least(uniform(256), "F16") == 2 * 256 * HALF
    assert least(uniform(256), "BF16") == HALF
