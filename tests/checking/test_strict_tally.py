"""What was found of one tensor, of which some rows come after the others."""

import numpy as np
import pytest

from hf_lineage.checking.strict import Coded, Tally
from hf_lineage.checkpoint.codes import MOST_CUT, Codes, filled_ends, uniform
from hf_lineage.checkpoint.tensor import TensorInfo

ROWS, COLUMNS = 8, 64


def decoded(parts):
    codes, scales = parts
    return (codes.astype(np.float32) - 8) * scales


def tensor(**more):
    codes = Codes("", *filled_ends(0, 0, 15), decoded, uniform(16), (1, COLUMNS), **more)
    return TensorInfo((ROWS, COLUMNS), ("codes", "scales"), decoded, itemsize=4, codes=codes)


@pytest.fixture
def base():
    return np.random.default_rng(0).uniform(-0.8, 0.7, (ROWS, COLUMNS)).astype(np.float32)


def stored(base):
    scales = np.abs(base).max(axis=1, keepdims=True) / 8
    return [np.rint(base / scales + 8).clip(0, 15).astype(np.uint8), scales]


def tallied(base, parts, info=None, step=3):
    info = info or tensor()
    tally = Tally("a", base.size)
    for start in range(0, ROWS, step):
        rows = slice(start, start + step)
        some = [part[rows] for part in parts]
        tally.add_coded(Coded(info, info.codes, some, decoded(some), base[rows], start), 0.0)
    return tally


def test_nothing_is_wrong_with_what_a_quantizer_writes(base):
    assert tallied(base, stored(base)).result() is None


def test_the_furthest_number_is_told_with_its_place_in_the_whole_tensor(base):
    parts = stored(base)
    parts[0][6, 5] = (parts[0][6, 5] + 2) % 14
    parts[0][7, 1] = (parts[0][7, 1] + 8) % 16
    wrong = tallied(base, parts).result()
    assert (wrong.beyond, wrong.numbers, wrong.place) == (2, base.size, (7, 1))
    assert 6 < wrong.excess < 8


def test_a_search_for_scales_leaves_few_numbers_beyond_and_no_more(base):
    info = tensor(searched=True)
    for many, wrong in ((1, False), (int(MOST_CUT * base.size) + 2, True)):
        beyond = base.copy()
        beyond[0, :many] = 1.1
        parts = stored(base)
        parts[0][0, :many] = 15
        assert (tallied(beyond, parts, info).result() is not None) == wrong


def test_a_cast_is_right_where_it_is_the_nearest(base):
    tally = Tally("a", base.size)
    half = base.astype(np.float16)
    tally.add_cast(half, base, 0, 0.0)
    assert tally.result() is None
    half[2, 3:4].view(np.uint16)[0] += 3
    tally.add_cast(half, base, 0, 0.0)
    wrong = tally.result()
    assert (wrong.beyond, wrong.excess, wrong.place) == (1, 3.0, (2, 3))


def test_no_number_in_both_is_equal_and_what_a_converter_adds_and_takes_off_again_may_be_lost(base):
    one, other = base.copy(), base.copy()
    one[0, 0] = other[0, 0] = np.nan
    tally = Tally("a", base.size)
    tally.add_cast(one, other, 0, 0.0)
    tally.add_cast((base + 1) - 1, base, 0, 2.0**-24)
    assert tally.result() is None
    one[1, 1] = np.nan
    tally.add_cast(one, other, 0, 0.0)
    assert tally.result().excess == np.inf
