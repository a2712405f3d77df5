"""The grid that stored numbers are chosen from, found by decoding the least code and the largest everywhere."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.checkpoint import codes as grids

FOUR = grids.Codes("four bits", *grids.filled_ends(0, 0x00, 0xFF), lambda parts: parts[0], grids.uniform(16), (1, 32))
NF = (-1.0, -0.7, -0.5, -0.3, 0.0, 0.3, 0.5, 0.7, 1.0)


def test_steps_of_a_uniform_grid_are_equal_and_one_part_alone_is_filled():
    assert grids.uniform(5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert grids.table([6, -6, 0, -0.0, 3]).tolist() == [0.0, 0.5, 0.75, 1.0]
    numbers = np.array([1.0009765625, 1e6], np.float32)  # what is too large is infinite
    assert grids.cast(numbers, np.dtype(np.float16)).tolist() == [1.0009765625, np.inf]
    parts = [np.array([[1, -2]], np.int8), np.array([0.5], np.float32)]
    low, high = (fill(parts) for fill in grids.filled_ends(0, 0x80, 0x7F))
    assert (low[0].tolist(), high[0].tolist()) == ([[-128, -128]], [[127, 127]])
    assert low[1] is parts[1]
    assert grids.filled_ends(0, 0, 0)[0](parts)[0].dtype == np.int8
    assert parts[0].tolist() == [[1, -2]]
    ends = [np.array([0, 7, 255], np.uint8)]
    assert [grids.step_part(0, step)(ends)[0].tolist() for step in (-1, 1)] == [[0, 6, 254], [1, 8, 255]]
    blocks = grids.within_blocks(3, (1, b"\xaa\xbb"))([np.arange(12, dtype=np.uint8).reshape(2, 6)])[0]
    assert blocks.tolist() == [[0, 0xAA, 0xBB, 3, 0xAA, 0xBB], [6, 0xAA, 0xBB, 9, 0xAA, 0xBB]]


@pytest.mark.parametrize(("dtype", "more"), [("F32", 3.1e-5), ("F16", 0.125), ("BF16", 1.0), ("F8_E4M3", 0.0)])
def test_scales_with_few_digits_leave_more_beside_half_a_step(dtype, more):
    """The smallest scales of float16 leave more whatever the grid."""
    assert grids.slack(grids.uniform(256), dtype) == pytest.approx(grids.ROUNDED + more, abs=1e-3)
    assert grids.integers("", grids.table, 8, (1, 1), dtype).least == (
        512 * grids.HALF if dtype == "F16" else grids.HALF
    )


def grid(base, low, high, levels):
    values = low + (high - low) * levels
    return values[np.abs(values - base[..., None]).argmin(axis=-1)], (np.full_like(base, low), np.full_like(base, high))


@pytest.fixture
def base():
    return np.random.default_rng(0).uniform(-1, 1, (4, 64)).astype(np.float32)


@pytest.mark.parametrize("levels", [grids.uniform(16), grids.table(NF)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_nearest_values_are_right_and_any_other_is_not(base, levels, turned):
    codes = grids.Codes("", *grids.filled_ends(0, 0, 255), lambda parts: parts[0], levels, (1, 32))
    ends = (1.0, -1.0) if turned else (-1.0, 1.0)
    numbers, width = grid(base, *ends, levels)
    assert grids.excess(base, numbers, width, codes)[0].max() <= 0
    values = ends[0] + (ends[1] - ends[0]) * levels
    numbers[2, 7] = values[(np.abs(values - numbers[2, 7]).argmin() + 4) % len(values)]
    steps, cut = grids.excess(base, numbers, width, codes)
    assert np.argwhere(steps > 0).tolist() == [[2, 7]]
    assert not cut.any()


def test_what_is_near_is_right_by_the_whole_rule_and_a_coarser_grid_is_seen(base):
    numbers, ends = grid(base, -1.0, 1.0, FOUR.levels)
    assert grids.all_near(base, numbers, ends, FOUR)
    assert not grids.all_near(base, numbers, ends, replace(FOUR, levels=grids.table(NF)))
    for wrong in (np.nan, np.inf, 0.6):
        other = numbers.copy()
        other[3, 3] += wrong
        assert not grids.all_near(base, other, ends, FOUR)
        assert grids.excess(base, other, ends, FOUR)[0].max() > 0
    assert not grids.all_near(base, numbers, (ends[0] * np.inf, ends[1]), FOUR)
    numbers, ends = grid(base, -1.0, 1.0, FOUR.levels)
    assert not grids.miss_ends(numbers, ends, FOUR)[0].any()
    numbers[1, :32], wide = 0, (ends[0].copy(), ends[1].copy())
    wide[0][1, :32], wide[1][1, :32] = -16, 16
    short, far = grids.miss_ends(numbers, wide, FOUR)
    assert np.argwhere(short).tolist() == np.argwhere(far).tolist() == [[1, 0]]


def ends(low, high, *shape):
    return np.full(shape, low, np.float32), np.full(shape, high, np.float32)


def test_what_lies_beyond_its_grid_may_be_a_step_off_or_cut_by_searched_scales():
    base, numbers = (np.array([row], np.float32) for row in ([1.0, 1.09, 1.5, -1.5], [1.0, 1.0, 1.0, -1.0]))
    assert (grids.excess(base, numbers, ends(-1, 1, 1, 4), FOUR)[0] > 0).tolist() == [[False, False, True, True]]
    base, zeros = np.array([[0.0, 1e-9, 0.3]], np.float32), np.zeros((1, 3), np.float32)  # a grid of no width
    assert (grids.excess(base, zeros, (zeros, zeros), FOUR)[0] > 0).tolist() == [[False, False, True]]
    base, numbers = np.array([[2.0, 9.0]], np.float32), np.array([[1.0, 1.0]], np.float32)
    steps, cut = grids.excess(base, numbers, ends(-1, 1, 1, 2), replace(FOUR, searched=True))
    assert ((steps > 0).tolist(), cut.tolist()) == ([[True, True]], [[True, False]])
    assert grids.CUT * 2 < 9 - 1
    base, (low, high) = np.zeros((1, 2), np.float32), ends(-1, 1, 1, 2)
    for value in (np.nan, np.inf, -np.inf):  # which are never right
        odd = np.array([[0, value]], np.float32)
        assert np.isinf(grids.excess(base, odd, (low, high), FOUR)[0][0, 1])
        assert np.isinf(grids.excess(odd, base, (low, high), FOUR)[0][0, 1])
        assert np.isinf(grids.excess(base, base, (low * value, high), FOUR)[0]).all()


@pytest.mark.parametrize(
    ("rules", "least", "most", "short"),
    [({}, 0, 0.4, False), ({"both": True}, 0, 0.4, True), ({"both": True, "zero": True}, 0.8, 1, False)],
)
def test_one_end_is_reached_or_both_but_where_a_grid_always_reaches_to_zero(rules, least, most, short):
    numbers = np.linspace(least, most, 32, dtype=np.float32)[None]
    assert grids.miss_ends(numbers, ends(0, 1, 1, 32), replace(FOUR, **rules))[0].all() == short


@pytest.mark.parametrize("block", [(1, 32), (2, 2), (3, 5), (4, 64)])
def test_blocks_of_any_shape_are_looked_at_those_at_the_edges_too(base, block):
    codes, numbers, shape = replace(FOUR, block=block), np.zeros_like(base), (-(-4 // block[0]), -(-64 // block[1]))
    short = grids.miss_ends(numbers, ends(-1, 1, 4, 64), codes)[0]
    assert (short.shape, short.all()) == (shape, True)
    numbers[3, 63] = 1
    assert grids.miss_ends(numbers, ends(-1, 1, 4, 64), codes)[0].sum() == short.size - 1
    assert grids.miss_ends(np.stack([numbers, numbers]), ends(-1, 1, 2, 4, 64), codes)[0].shape == (2, *shape)


@pytest.mark.parametrize(("step", "together", "count"), [(1, 64, 0), (1, 32, 1), (2, 64, 1)])
def test_a_step_of_the_scales_that_is_large_beside_their_grids_is_seen(step, together, count):
    """A block of zeros needs no grid if the base has zeros there."""
    width = np.repeat(np.array([63.0, 10.0], np.float32), 32)
    assert grids.count_big(np.full(64, step, np.float32), width, 0.02, together) == count
    base = np.zeros((1, 64), np.float32)
    base[0, 40] = 1e-3
    assert grids.idle(np.zeros_like(base), base, FOUR).tolist() == [[True, False]]
