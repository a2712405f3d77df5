"""Memory: tensors of one layer after the other in the same place."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hf_lineage.checkpoint.memory import ALIGNMENT, Memory


def start(taken: NDArray[np.uint8]) -> int:
    """Where the first byte lies."""
    return taken.ctypes.data


def test_what_is_taken_is_aligned_and_lies_apart() -> None:
    memory = Memory()
    memory.reuse([3, 100, 0, 8])
    taken = [memory.take(size) for size in (3, 100, 0, 8)]
    for value, each in enumerate(taken, 1):
        each.fill(value)
    assert [each.tolist() for each in taken] == [[1] * 3, [2] * 100, [], [4] * 8]
    assert {(start(each) - start(taken[0])) % ALIGNMENT for each in taken if len(each)} == {0}


@pytest.mark.parametrize("sizes", [[100], [40, 60], [1]])
def test_memory_is_used_again_while_it_suffices(sizes: list[int]) -> None:
    memory = Memory()
    memory.reuse([100, 100])
    first = start(memory.take(100))
    memory.reuse(sizes)
    assert start(memory.take(sizes[0])) == first


def test_it_grows_for_a_larger_layer_and_leaves_the_old_memory_to_those_who_hold_it() -> None:
    memory = Memory()
    memory.reuse([4])
    held = memory.take(4)
    held.fill(7)
    memory.reuse([1000])
    memory.take(1000).fill(9)
    assert held.tolist() == [7] * 4


def test_whoever_takes_more_than_was_announced_gets_memory_of_its_own() -> None:
    memory = Memory()
    memory.reuse([64])
    taken = [memory.take(64) for _ in range(3)]
    for value, each in enumerate(taken, 1):
        each.fill(value)
    assert [each.tolist() for each in taken] == [[1] * 64, [2] * 64, [3] * 64]
