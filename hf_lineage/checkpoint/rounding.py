"""Rounding: whether the numbers of a matrix lie on the grid of a quantization, and how far rounding moves them.

A quantized matrix that was stored as floating-point numbers again still shows its grid: all numbers that share a scale
are levels of one table times that scale, whole numbers or those of a short format. A trained matrix shows none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.formats.grid import CODES, E2M1, finite_numbers
from hf_lineage.checkpoint.tensor import DTYPES, single

Matrix = NDArray[np.float32]

DIGITS = {"BF16": 8, "F16": 11, "F32": 24, "F64": 53}  # binary digits of a number, the leading one included
STORED = {DIGITS[name]: DTYPES[name] for name in ("BF16", "F16")}  # formats shorter than float32, by their digits
LEAST = {DIGITS["F16"]: -24}  # digits -> the power of two between numbers next to 0, if not far below all weights
BLOCKS, SQUARE = (128, 64, 32, 16), 128  # that share a scale, if not a row, a column or all; the side of squares
LOOKED_AT = 2**13  # numbers of a matrix that are tested, spread over its groups
FEWEST = 256  # the fewest numbers that must be tested: by chance, three of ten lie close to a multiple
CLOSE, SHARE = 0.15, 0.99  # distance of a number from a level, in steps, and the least share so close
FAR = 0.8  # least share of a few numbers, tested first: a smaller one ends the test
DRIFT = 0.05  # the most steps by which the storing format may have moved a number that is tested


class Levels(NamedTuple):
    """The table of a quantization: whole numbers of some bits, or those of a floating-point format."""

    bits: int
    table: NDArray[Any] | None = None  # (n,): ascending, from -1 to 1; None for whole numbers
    name: str = ""  # name of the floating-point format; empty for whole numbers
    top: float = 1.0  # largest number of the format, where scales may be powers of two, or missing; else 1

    def fits(self, groups: "_Groups") -> tuple[Matrix, Matrix]:
        """Return scales and zero points (f, g, 1) that a quantizer may have chosen, in f ways."""
        if self.table is None:
            return _whole_fits(groups, np.array([self.bits]))
        largest, top = groups.largest, np.float32(self.top)
        power = np.exp2(np.ceil(np.log2(np.maximum(largest, np.float32(1e-30)) / top)))
        scales = np.stack([top * np.ones_like(largest), top * power, largest] if self.top > 1 else [largest])
        return scales, np.zeros_like(scales)

    def place(self, numbers: Matrix, scale: Matrix, zero: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Return numbers in units of the scale, the nearest level of each, and its distances to the next two levels."""
        at = np.asarray((numbers - zero) / np.where(scale > 0, scale, 1), np.float32)
        if self.table is None:
            one = np.ones(at.shape, np.float32)
            return at, np.rint(at), one, one
        level, gaps = np.searchsorted((self.table[1:] + self.table[:-1]) / 2, at), np.diff(self.table)
        below = np.take(gaps, level - 1, mode="clip").astype(np.float32)
        return at, self.table[level].astype(np.float32), below, np.take(gaps, level, mode="clip").astype(np.float32)


@dataclass(frozen=True)
class Grid:
    """The grid of a quantization, with what a matrix on it has for scales, in the shape of the matrix."""

    levels: Levels
    scale: Matrix
    zero: Matrix
    step: Matrix  # distance of neighbouring values around each number, the mean of both sides

    def rounds(self, base: Matrix, matrix: Matrix) -> bool:
        """Return whether nearly all numbers of a matrix are the nearest on the grid to those of a base."""
        nearest = self.levels.place(base, self.scale, self.zero)[1]
        return bool(np.mean(np.abs(nearest * self.scale + self.zero - matrix) <= CLOSE * self.step) >= SHARE)


class _Groups(NamedTuple):
    """The numbers of a matrix by the scale that they would share, with the extremes of each group."""

    numbers: Matrix  # (g, n)
    least: Matrix  # (g, 1)
    most: Matrix  # (g, 1)
    largest: Matrix  # (g, 1): the largest magnitude

    @classmethod
    def every(cls, numbers: Matrix) -> "_Groups":
        """Return the groups of these numbers (g, n)."""
        least, most = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
        return cls(numbers, least, most, np.maximum(-least, most))

    @classmethod
    def some(cls, cells: Matrix) -> "_Groups":
        """Return some numbers of some groups (r, c, h, w), with the extremes of all numbers of each."""
        rows, columns, high, wide = cells.shape
        groups, size = rows * columns, high * wide
        each = min(size, max(LOOKED_AT // groups, FEWEST))
        chosen = np.arange(0, groups, max(1, groups * each // LOOKED_AT))
        every = cls.every(cells[np.divmod(chosen, columns)].reshape(len(chosen), size))
        return every._replace(numbers=every.numbers[:, :: max(1, size // each)])


def find_grid(matrix: Matrix, digits: int) -> Grid | None:
    """Return the grid on which a matrix (r, c) lies, stored with so many binary digits; None if there is none."""
    rows, columns = matrix.shape
    blocks = [(high, wide) for size in BLOCKS for high, wide in ((1, size), (size, 1))]
    sizes = ((rows, columns), (1, columns), (rows, 1), *blocks, (SQUARE, SQUARE))  # of groups that share a scale
    divided = [
        matrix.reshape(rows // high, high, columns // wide, wide).swapaxes(1, 2)  # (r, c, h, w)
        for high, wide in sizes
        if rows % high == 0 and columns % wide == 0
    ]
    chosen = [_Groups.some(cells) for cells in divided]
    likely = [(row, at, *rest) for at, some in enumerate(chosen) for row, *rest in _likely(some, digits)]
    for _, at, place, fit in sorted(likely):
        cells, some, (_, levels) = divided[at], chosen[at], LEVELS[place]
        counted, share = _shares(some.numbers, [_on(levels, some.numbers, levels.fits(some), fit)], digits)
        if counted[0] >= FEWEST and share[0] >= SHARE:
            groups = _Groups.every(cells.reshape(-1, cells.shape[2] * cells.shape[3]))
            scale, zero = (every[fit] for every in levels.fits(groups))
            _, _, below, above = levels.place(groups.numbers, scale, zero)
            step = single(scale * (below + above) / 2)
            whole = (np.broadcast_to(one, groups.numbers.shape).reshape(cells.shape) for one in (scale, zero, step))
            return Grid(levels, *(values.swapaxes(1, 2).reshape(matrix.shape) for values in whole))
    return None


def shortest(matrix: Matrix, digits: int) -> int:
    """Return the binary digits of the shortest format that holds all numbers of a matrix stored with so many."""
    shorter = (short for short in sorted(STORED) if short < digits)
    parts = matrix[:1], matrix
    return next((it for it in shorter if all(np.array_equal(round_digits(one, it), one) for one in parts)), digits)


def spacing(matrix: Matrix, digits: int) -> Matrix:
    """Return the distance between neighbouring numbers of a format around each number of a matrix."""
    exponents = np.arange(256) - 126  # by the eight bits in which float32 stores them; 0 has the least
    units = np.ldexp(np.float32(1), np.maximum(exponents - digits, LEAST.get(digits, -148)))
    return units[(matrix.view(np.uint32) >> 23).astype(np.uint8)]


def round_digits(matrix: Matrix, digits: int) -> Matrix:
    """Return numbers rounded to a format of so many binary digits; those of float32 stay as they are."""
    if digits not in STORED:
        return matrix
    with np.errstate(over="ignore"):
        return single(matrix.astype(STORED[digits]))


def _levels(bits: int, values: Iterable[float], name: str = "", scaled: bool = False) -> Levels:
    table = np.unique(np.array([*values], np.float64))
    return Levels(bits, table / table[-1], name, float(table[-1]) if scaled else 1.0)


LEVELS = [
    *((0, levels) for levels in (_levels(1, (-1, 1)), _levels(2, (-1, 0, 1)), *map(Levels, range(2, 6)))),
    (1, _levels(4, E2M1, "E2M1", scaled=True)),
    *((1, _levels(4, values, name.upper())) for name, values in CODES.items()),
    *((2, _levels(8, finite_numbers(f"F8_{name}"), name, scaled=True)) for name in ("E5M2", "E4M3")),
    *((2, levels) for levels in map(Levels, range(6, 9))),
]  # levels, and the order in which they are looked for: a finer grid holds the numbers of a coarser one
WHOLE = [(row, place, levels.bits) for place, (row, levels) in enumerate(LEVELS) if levels.table is None]
SHORT = [(row, place, levels) for place, (row, levels) in enumerate(LEVELS) if levels.table is not None]
OWNERS = [(row, place, fit) for fit in range(4) for row, place, _ in WHOLE]
OWNERS += [(row, place, fit) for row, place, levels in SHORT for fit in range(3 if levels.top > 1 else 1)]
"""Order and place in LEVELS, and number of a fit, as `_likely` tries them."""


def _whole_fits(groups: _Groups, bits: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    """Return scales and zero points of whole numbers: by the largest magnitude in two ways, or by the range."""
    half = (2.0 ** (bits - 1)).astype(np.float32)[:, None, None]
    span = (groups.most - groups.least) / (2 * half - 1)
    scales = np.concatenate([groups.largest / (half - 1), groups.largest / half, span, span])
    zeros = np.zeros((4, len(bits), *groups.least.shape), np.float32)
    zeros[2] = groups.least
    return scales, zeros.reshape(scales.shape)


def _likely(some: _Groups, digits: int) -> Iterator[tuple[int, int, int]]:
    """Yield each order and place in LEVELS, and the number of a fit, by which a few numbers may lie on a grid."""
    few = _Groups(*(each[:: -(-len(some.numbers) // 16)] for each in some))
    numbers = few.numbers[:, ::64]
    placed = [_on(Levels(0), numbers, _whole_fits(few, np.array([bits for *_, bits in WHOLE])))]
    placed += (_on(levels, numbers, levels.fits(few)) for *_, levels in SHORT)
    counted, share = _shares(numbers, placed, digits)
    return (OWNERS[number] for number in np.flatnonzero((counted == 0) | (share >= FAR)))


def _on(levels: Levels, numbers: Matrix, fits: tuple[Matrix, Matrix], fit: int | None = None) -> list[Matrix]:
    scale, zero = fits if fit is None else (every[fit : fit + 1] for every in fits)
    at, nearest, below, above = levels.place(numbers, scale, zero)
    return [scale, zero, at, nearest, np.where(at < nearest, below, above)]


def _shares(numbers: Matrix, placed: Sequence[Sequence[Matrix]], digits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each fit how many numbers count, no zeros nor those moved far, and the share close to a level."""
    scale, zero, at, nearest, gap = map(np.concatenate, zip(*placed, strict=True))
    counted = (nearest * scale + zero != 0) & ((numbers != 0) | (zero == 0))
    counted &= np.abs(numbers) <= DRIFT * 2.0**digits * gap * scale
    close = counted & (np.abs(at - nearest) <= CLOSE * gap)
    counts = counted.sum(axis=(-2, -1))
    return counts, close.sum(axis=(-2, -1)) / np.maximum(counts, 1)
