"""The grid: blocks of a matrix, each with its own scale, the last ones smaller."""

import numpy as np
import pytest

from hf_lineage.checkpoint.formats import grid
from hf_lineage.checkpoint.formats.grid import Grid, finite
from hf_lineage.errors import CheckpointError

SHAPES = [(7, 10), (8, 12), (1, 1), (64, 3)]
BLOCKS = [(1, 4), (2, 3), (3, 100), (100, 5), (1, 1), (100, 100)]


def expected(numbers, block, scales, zeros):
    """Number by number."""
    return [
        [(x - zeros[i // block[0], j // block[1]]) * scales[i // block[0], j // block[1]] for j, x in enumerate(row)]
        for i, row in enumerate(numbers)
    ]


@pytest.mark.parametrize("at_once", [1, 20, 2**19])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_number_has_the_scale_and_zero_point_of_its_block(shape, block, at_once, monkeypatch):
    monkeypatch.setattr(grid, "AT_ONCE", at_once)
    random, blocks = np.random.default_rng(0), Grid(shape, block)
    numbers, scales, zeros = (random.integers(-8, 8, size).astype(np.float32) for size in (shape, *2 * [blocks.cells]))

    def unpack(rows, target):
        target[...] = numbers[rows]

    np.testing.assert_array_equal(blocks.decoded(unpack, scales, zeros), expected(numbers, block, scales, zeros))
    np.testing.assert_array_equal(blocks.decoded(unpack, scales), expected(numbers, block, scales, 0 * zeros))


def test_columns_of_one_block_need_not_lie_side_by_side():
    blocks = Grid((2, 4), (1, 2), columns=np.array([1, 0, 1, 0]))
    scales = np.array([[2, 3], [5, 7]], np.float32)

    def unpack(rows, target):
        target[...] = 1

    np.testing.assert_array_equal(blocks.decoded(unpack, scales), [[3, 2, 3, 2], [7, 5, 7, 5]])
    turned = Grid((4, 2), (2, 1), rows=np.array([1, 0, 1, 0]))
    np.testing.assert_array_equal(turned.decoded(unpack, scales.T), [[3, 7], [2, 5], [3, 7], [2, 5]])


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_scales_that_are_not_finite_are_an_error_with_their_name(odd):
    with pytest.raises(CheckpointError, match=r"up_proj\.scales holds scales that are not finite"):
        finite("up_proj.scales", np.array([1, odd], np.float16))
    assert finite("", np.array([0.5], np.float16)).dtype == np.float32
