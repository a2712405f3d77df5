"""Grid: a matrix in blocks, each with a scale and perhaps a zero point of its own, decoded a few rows at a time.

Integers of a few bits are packed in words of 32 bits without gaps, the first in the lowest; FP4 (E2M1) two to a byte.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Parts
from hf_lineage.checkpoint.tensor import DTYPES, single, widen
from hf_lineage.errors import CheckpointError

WORD = 32  # bits of a word
Matrix = NDArray[np.float32]
Unpack = Callable[[slice, Matrix], None]  # writes some rows of a matrix, not yet scaled, into an array
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)  # by their bits
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)  # quantiles of the normal distribution, by their bits
FP4 = tuple(sign * value / 12 for sign in (1, -1) for value in (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0))
CODES = {"nf4": NF4, "fp4": FP4}  # the tables of bitsandbytes by the names that it gives them
AT_ONCE = 2**19  # numbers decoded at a time, so that what lies between the stored and the decoded stays small


def words(numbers: int, bits: int) -> int:
    """Return the number of words that hold so many numbers."""
    return -(-numbers * bits // WORD)


def down(packed: NDArray[Any], bits: int) -> Unpack:
    """Return a function that writes rows of a matrix (n, columns), whose columns are packed (words(n), columns)."""
    length, values = period(bits)

    def unpack(rows: slice, target: Matrix) -> None:
        first, last = rows.start // values, -(-rows.stop // values)
        some = packed[first * length : last * length]
        whole = np.empty(((last - first) * values, packed.shape[1]), np.float32)
        for place, numbers in enumerate(_fields(some, bits)):
            whole[place::values] = numbers
        target[...] = whole[rows.start - first * values : rows.stop - first * values]

    return unpack


def across(packed: NDArray[Any], bits: int, order: Sequence[int] = ()) -> Unpack:
    """Return a function that writes rows of n numbers, packed (rows, words(n)) with those of each period in order."""
    length, values = period(bits)
    columns = -(-packed.shape[1] // length) * values

    def unpack(rows: slice, target: Matrix) -> None:
        whole = np.empty((len(target), columns), np.float32)
        for place, numbers in enumerate(_fields(packed[rows].T, bits)):
            whole[:, order[place] if order else place :: values] = numbers.T
        target[...] = whole[:, : target.shape[1]]

    return unpack


def planes(packed: NDArray[Any], bits: int, high_first: bool) -> Unpack:
    """Return a function that writes rows of integers, those of a word as many rows apart as a column has."""
    height, count = len(packed), packed.itemsize * 8 // bits

    def unpack(rows: slice, target: Matrix) -> None:
        place, row = np.divmod(np.arange(rows.start, rows.stop), height)
        shift = bits * (count - 1 - place if high_first else place)
        target[...] = (packed[row] >> shift.astype(packed.dtype)[:, None]) & packed.dtype.type(2**bits - 1)

    return unpack


def period(bits: int) -> tuple[int, int]:
    """Return the number of words after which a number begins with a word again, and the numbers that they hold."""
    common = math.gcd(bits, WORD)
    return bits // common, WORD // common


def _fields(packed: NDArray[Any], bits: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the first numbers of all periods (periods, columns), the second ones, and so on, of columns of words."""
    length, values = period(bits)
    missing, mask = -len(packed) % length, np.uint32(2**bits - 1)
    filled = np.pad(packed.view(np.uint32), ((0, missing), (0, 0))) if missing else packed.view(np.uint32)
    for start in range(0, values * bits, bits):
        word, offset = divmod(start, WORD)
        value = filled[word::length] >> np.uint32(offset)
        if offset + bits > WORD:
            value |= filled[word + 1 :: length] << np.uint32(WORD - offset)
        yield value & mask


def finite_numbers(dtype: str) -> Matrix:
    """Return all finite numbers of a format of one byte, in the order of their bits."""
    values = single(np.arange(256, dtype=np.uint8).view(DTYPES[dtype]))
    return values[np.isfinite(values)]


def pairs(low_first: bool, *values: float) -> NDArray[np.float64]:
    """Return for each byte the two of sixteen numbers that it holds, two of float32 in the memory of a float64."""
    code, byte = np.array(values, np.float32), np.arange(256)
    halves = (byte & 15, byte >> 4) if low_first else (byte >> 4, byte & 15)
    table: NDArray[np.float64] = np.stack([code[half] for half in halves], axis=1).reshape(-1).view(np.float64)
    return table


def write_pairs(table: NDArray[np.float64], packed: NDArray[Any], target: Matrix) -> None:
    """Write the numbers of bytes (..., n), two of each by `pairs`, into an array in float32 (..., 2 n)."""
    np.take(table, packed.view(np.uint8), out=target.view(np.float64), mode="wrap")


PAIRS = pairs(True, *E2M1)  # the lower half of a byte is the first number


@dataclass(frozen=True)
class Grid:
    """A matrix and the size of its blocks; blocks at its right and lower edge may be smaller."""

    shape: tuple[int, int]
    block: tuple[int, int]
    rows: NDArray[np.intp] | None = None  # the block of each row, where the rows of one block do not lie side by side
    columns: NDArray[np.intp] | None = None  # the block of each column, where those of one block are not neighbours

    @property
    def cells(self) -> tuple[int, int]:
        """The number of blocks one below the other, and side by side."""
        return -(-self.shape[0] // self.block[0]), -(-self.shape[1] // self.block[1])

    def decode(self, unpack: Unpack, scales: Matrix, zeros: Matrix | None = None) -> Matrix:
        """Return (numbers - zeros) x scales, with scales and zeros given as `cells`."""
        whole, height = np.empty(self.shape, np.float32), self.block[0]
        total, columns = self.shape
        # A few rows at a time: of one row of blocks, unless these have only one row each.
        step = height if self.rows is None and 1 < height < total else max(1, AT_ONCE // columns)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found where it is compared
            for rows in (slice(start, min(start + step, total)) for start in range(0, total, step)):
                unpack(rows, whole[rows])
                if zeros is not None:
                    whole[rows] -= self._broadcast(zeros, rows)
                whole[rows] *= self._broadcast(scales, rows)
        return whole

    def decode_bytes(self, name: str, parts: Parts) -> Matrix:
        """Return a matrix of one byte to a number, given its scales, called `name`, and perhaps its zero points."""
        stored, scales, *others = parts
        zeros = others[0].astype(np.float32).reshape(self.cells) if others else None
        values = finite(name, scales).reshape(self.cells)
        return self.decode(lambda rows, target: widen(target, stored[rows]), values, zeros)

    def _broadcast(self, values: Matrix, rows: slice) -> Matrix:
        height, width = self.block
        beside = slice(rows.start // height, (rows.stop - 1) // height + 1)
        some = values[beside if self.rows is None else self.rows[rows]]
        if self.columns is not None:
            return some[:, self.columns]
        return some if width == 1 or values.shape[1] == 1 else np.repeat(some, width, axis=1)[:, : self.shape[1]]


def finite(name: str, stored: NDArray[Any]) -> Matrix:
    """Return scales in float32, of one byte those of E8M0; raise CheckpointError if one is infinite or no number."""
    scales = single(stored.view(DTYPES["F8_E8M0"]) if stored.dtype.itemsize == 1 else stored)
    if not np.isfinite(scales).all():
        raise CheckpointError(f"{name} holds scales that are not finite; the weights are damaged, save them again")
    return scales
