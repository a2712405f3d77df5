"""Packing: integers of a few bits in a row without gaps, in words of 32 bits, the first in the lowest bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 32
"""Bits of a word."""
Words = NDArray[Any]
"""Integers of 32 bits."""


def period(bits: int) -> tuple[int, int]:
    """Return after how many words a number begins with a word again, and how many numbers these words hold."""
    common = math.gcd(bits, WORD)
    return bits // common, WORD // common


def words(numbers: int, bits: int) -> int:
    """Return how many words hold so many numbers."""
    return -(-numbers * bits // WORD)


def down(packed: Words, bits: int) -> Callable[[slice, NDArray[np.float32]], None]:
    """Return what writes some rows of a matrix (n, columns), whose columns are packed (words(n), columns)."""
    length, values = period(bits)

    def unpack(rows: slice, target: NDArray[np.float32]) -> None:
        first, last = rows.start // values, -(-rows.stop // values)
        some = _filled(packed[first * length : last * length], (last - first) * length)
        whole = np.empty((last - first, values, packed.shape[1]), np.float32)
        grouped = some.reshape(last - first, length, -1)
        for place, numbers in enumerate(_fields([grouped[:, word] for word in range(length)], bits)):
            whole[:, place] = numbers
        start = first * values
        target[...] = whole.reshape(-1, packed.shape[1])[rows.start - start : rows.stop - start]

    return unpack


def across(packed: Words, bits: int, order: Sequence[int] = ()) -> Callable[[slice, NDArray[np.float32]], None]:
    """Return what writes some rows of a matrix (rows, n), whose rows are packed (rows, words(n)).

    The numbers of one period stand in this order if it is given.
    """
    length, values = period(bits)
    periods = -(-packed.shape[1] // length)

    def unpack(rows: slice, target: NDArray[np.float32]) -> None:
        some = _filled(packed[rows].T, periods * length).T.reshape(-1, periods, length)
        whole = np.empty((len(some), periods, values), np.float32)
        for place, numbers in enumerate(_fields([some[..., word] for word in range(length)], bits)):
            whole[..., order[place] if order else place] = numbers
        target[...] = whole.reshape(len(some), -1)[:, : target.shape[1]]

    return unpack


def _filled(packed: Words, length: int) -> NDArray[np.uint32]:
    """Words without signs, with zeros below them up to this length."""
    bare = packed.view(np.uint32)
    return bare if len(bare) == length else np.pad(bare, ((0, length - len(bare)), (0, 0)))


def _fields(period_words: Sequence[NDArray[np.uint32]], bits: int) -> Iterator[NDArray[np.uint32]]:
    """The first numbers of all periods, the second ones, and so on, given the first words of all periods and so on."""
    mask = np.uint32(2**bits - 1)
    for start in range(0, WORD * len(period_words), bits):
        word, offset = divmod(start, WORD)
        value = period_words[word] >> np.uint32(offset)
        if offset + bits > WORD:
            value |= period_words[word + 1] << np.uint32(WORD - offset)
        yield value & mask
