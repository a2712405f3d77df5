"""Grid: a matrix in blocks, each with a scale and perhaps a zero point of its own, decoded a few rows at a time.

Its integers of a few bits are packed in a row without gaps, in words of 32 bits, the first in the lowest bits. FP4 are
two numbers of four bits in a byte, one of sign, two of exponent and one of the fraction (E2M1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.tensor import DTYPES, single, widen
from hf_lineage.errors import CheckpointError

WORD = 32
"""Bits of a word."""
Words = NDArray[Any]
"""Integers of 32 bits."""


def period(bits: int) -> tuple[int, int]:
    """Return the number of words after which a number begins with a word again, and the numbers that they hold."""
    common = math.gcd(bits, WORD)
    return bits // common, WORD // common


def words(numbers: int, bits: int) -> int:
    """Return the number of words that hold so many numbers."""
    return -(-numbers * bits // WORD)


def down(packed: Words, bits: int) -> Callable[[slice, NDArray[np.float32]], None]:
    """Return a function that writes rows of a matrix (n, columns), whose columns are packed (words(n), columns)."""
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
    """Return a function that writes rows of a matrix (rows, n), whose rows are packed (rows, words(n)).

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
    """Return words as unsigned integers, with rows of zeros below them up to this length."""
    bare = packed.view(np.uint32)
    return bare if len(bare) == length else np.pad(bare, ((0, length - len(bare)), (0, 0)))


def _fields(period_words: Sequence[NDArray[np.uint32]], bits: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the first numbers of all periods, the second ones, and so on, given the words of all periods likewise."""
    mask = np.uint32(2**bits - 1)
    for start in range(0, WORD * len(period_words), bits):
        word, offset = divmod(start, WORD)
        value = period_words[word] >> np.uint32(offset)
        if offset + bits > WORD:
            value |= period_words[word + 1] << np.uint32(WORD - offset)
        yield value & mask


E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The sixteen numbers, by their bits."""


def pairs(low_first: bool, *values: float) -> NDArray[np.float64]:
    """Return for each byte the two of sixteen numbers that it holds, two of float32 in the memory of a float64."""
    code, byte = np.array(values, np.float32), np.arange(256)
    halves = (byte & 15, byte >> 4) if low_first else (byte >> 4, byte & 15)
    table: NDArray[np.float64] = np.stack([code[half] for half in halves], axis=1).reshape(-1).view(np.float64)
    return table


def write_pairs(table: NDArray[np.float64], packed: NDArray[Any], target: NDArray[np.float32]) -> None:
    """Write the numbers of bytes (..., n), two of each by `pairs`, into an array in float32 (..., 2 n)."""
    np.take(table, packed.view(np.uint8), out=target.view(np.float64), mode="wrap")


PAIRS = pairs(True, *E2M1)
"""The lower half of a byte is the first number."""


def exponents(stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return scales that are stored as a power of two in one byte, E8M0, in float32; 255 is not a number."""
    return single(stored.view(DTYPES["F8_E8M0"]))


AT_ONCE = 2**19
"""Numbers that are decoded at a time, so that what lies between the stored and the decoded ones stays small."""

Unpack = Callable[[slice, NDArray[np.float32]], None]
"""Writes some rows of a matrix, not yet scaled, into an array in float32 of their shape."""


@dataclass(frozen=True)
class Grid:
    """A matrix and the size of its blocks; blocks at its right and lower edge may be smaller."""

    shape: tuple[int, int]
    block: tuple[int, int]
    rows: NDArray[np.intp] | None = None
    """The block of each row, where the rows of one block do not lie side by side."""
    columns: NDArray[np.intp] | None = None
    """The block of each column, where the columns of one block do not lie side by side."""

    @property
    def cells(self) -> tuple[int, int]:
        """The number of blocks one below the other, and side by side."""
        return -(-self.shape[0] // self.block[0]), -(-self.shape[1] // self.block[1])

    def decoded(
        self, unpack: Unpack, scales: NDArray[np.float32], zeros: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return (numbers - zeros) x scales, with scales and zeros given as `cells`."""
        whole = np.empty(self.shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found where it is compared
            for rows in self._slices():
                unpack(rows, whole[rows])
                if zeros is not None:
                    whole[rows] -= self._spread(zeros, rows)
                whole[rows] *= self._spread(scales, rows)
        return whole

    def widened(
        self, stored: NDArray[Any], scales: NDArray[np.float32], zeros: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return a matrix that is stored as one number to a number, decoded as above."""
        return self.decoded(lambda rows, target: widen(target, stored[rows]), scales, zeros)

    def _slices(self) -> Iterator[slice]:
        """Yield a few rows at a time: of one row of blocks, unless these have only one row each."""
        height, (rows, columns) = self.block[0], self.shape
        few = max(1, AT_ONCE // columns)
        step = height if self.rows is None and 1 < height < rows else few
        return (slice(start, min(start + step, rows)) for start in range(0, rows, step))

    def _spread(self, values: NDArray[np.float32], rows: slice) -> NDArray[np.float32]:
        """Return the values of the blocks of the numbers in some rows, as one row or one column where all agree."""
        height, width = self.block
        if self.rows is not None:
            some = values[self.rows[rows]]
        else:
            some = values[rows.start // height : (rows.stop - 1) // height + 1]
        if self.columns is not None:
            return some[:, self.columns]
        return some if width == 1 or values.shape[1] == 1 else np.repeat(some, width, axis=1)[:, : self.shape[1]]


def finite(name: str, stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return scales in float32, of one byte those of E8M0; raise CheckpointError if one is infinite or no number."""
    scales = exponents(stored) if stored.dtype.itemsize == 1 else single(stored)
    if not np.isfinite(scales).all():
        raise CheckpointError(f"{name} holds scales that are not finite; the weights are damaged, save them again")
    return scales
