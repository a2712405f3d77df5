"""Rounding: whether the numbers of a matrix lie on the grid of a quantization, and how far rounding moves them.

A quantized matrix that was stored as floating-point numbers again still shows its grid: within each group of numbers
that share a scale, all are whole multiples of one step. A trained matrix shows none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint import DTYPES, single

Matrix = NDArray[np.float32]

DIGITS = {"BF16": 8, "F16": 11, "F32": 24, "F64": 53}
"""Binary digits of a number of each format, the leading one included."""
STORED = {DIGITS[name]: DTYPES[name] for name in ("BF16", "F16")}
"""The formats that are shorter than float32, by their digits."""
LEAST = {DIGITS["F16"]: -24}
"""Digits of a format -> the power of two between its numbers next to 0, if that is not far below all weights."""
BITS, FINER = range(2, 6), range(6, 9)
"""Bits of the quantizations that are looked for before tables of values and after them, the fewest first: a finer grid
holds the numbers of a coarser one, and nearly those of a table."""
BLOCKS = (128, 64, 32)
"""Numbers of a row that share a scale, where it is not the whole row, column or matrix."""
LOOKED_AT = 2**13
"""How many numbers of a matrix are tested, spread over its groups."""
FEWEST = 256
"""The fewest numbers that must be tested: by chance, three of ten lie close to a multiple."""
CLOSE, SHARE = 0.15, 0.99
"""How close to a multiple of the step a number has to lie, in steps, and what share of the numbers has to."""
DRIFT = 0.05
"""The most steps by which the storing format may have moved a number that is tested."""
LEVELS, FINENESS = 32, 100
"""A table of 16 values, none a multiple of another, shows as at most LEVELS levels among FINENESS of either sign."""

Scheme = Callable[["_Groups", int], tuple[Matrix, Matrix]]
"""Groups and bits -> the step (g, 1) and the zero point (g, 1) that a quantizer would have chosen."""


@dataclass(frozen=True)
class Grid:
    """The grid of a quantization."""

    bits: int
    step: Matrix
    """Between neighbouring values, in the shape of the matrix; of a table of unequal steps around each number."""


@dataclass(frozen=True)
class _Groups:
    """The numbers of a matrix by the scale that they would share."""

    numbers: Matrix
    """(g, n)."""
    restored: Callable[[Matrix], Matrix]
    """From (g, n) to the shape of the matrix."""
    least: Matrix
    """(g, 1): the least number of each group."""
    most: Matrix
    """(g, 1)."""

    @classmethod
    def fit(cls, numbers: Matrix, restored: Callable[[Matrix], Matrix]) -> _Groups:
        return cls(numbers, restored, numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True))

    @property
    def largest(self) -> Matrix:
        """(g, 1): the largest magnitude."""
        return np.maximum(-self.least, self.most)

    @property
    def some(self) -> _Groups:
        """Some numbers of some groups, with the least and the largest of all numbers of the group."""
        groups, size = self.numbers.shape
        each = min(size, max(LOOKED_AT // groups, FEWEST))
        chosen = slice(None, None, max(1, groups * each // LOOKED_AT))
        within = slice(None, None, max(1, size // each))
        return replace(self, numbers=self.numbers[chosen, within], least=self.least[chosen], most=self.most[chosen])


def find_grid(matrix: Matrix, digits: int) -> Grid | None:
    """Return the grid on which the numbers of a matrix (r, c) lie; None if there is none.

    `digits` are the binary digits with which they were stored.
    """
    groupings = [(groups, groups.some) for groups in _groupings(matrix)]
    return _even(groupings, digits, BITS) or _on_table(matrix) or _even(groupings, digits, FINER)


def _even(groupings: Sequence[tuple[_Groups, _Groups]], digits: int, among: Sequence[int]) -> Grid | None:
    """A grid of equal steps, with so many bits as are among these; of each grouping all numbers are given, and some."""
    for groups, some in groupings:
        for bits, scheme in itertools.product(among, SCHEMES):
            if _on_grid(some.numbers, *scheme(some, bits), digits):
                step, _ = scheme(groups, bits)
                return Grid(bits, groups.restored(np.broadcast_to(step, groups.numbers.shape)))
    return None


def shortest(matrix: Matrix, digits: int) -> int:
    """Return the binary digits of the shortest format that holds all numbers of a matrix stored with so many."""
    return next((short for short in sorted(STORED) if short < digits and _holds(matrix, short)), digits)


def _holds(matrix: Matrix, digits: int) -> bool:
    some = matrix[:1]
    return np.array_equal(rounded(some, digits), some) and np.array_equal(rounded(matrix, digits), matrix)


def spacing(matrix: Matrix, digits: int) -> Matrix:
    """Return the distance between neighbouring numbers of a format around each number of a matrix."""
    _, exponent = np.frexp(matrix)
    unit: Matrix = np.ldexp(np.float32(1), np.maximum(exponent - digits, LEAST.get(digits, -148)))
    return unit


def rounded(matrix: Matrix, digits: int) -> Matrix:
    """Return numbers rounded to a format of so many binary digits; those of float32 stay as they are."""
    if digits not in STORED:
        return matrix
    with np.errstate(over="ignore"):
        return single(matrix.astype(STORED[digits]))


def _groupings(matrix: Matrix) -> Iterator[_Groups]:
    """Ways to divide a matrix into groups that share a scale."""
    rows, columns = matrix.shape
    yield _Groups.fit(matrix.reshape(1, -1), lambda groups: groups.reshape(rows, columns))
    yield _Groups.fit(matrix, lambda groups: groups)
    yield _Groups.fit(np.ascontiguousarray(matrix.T), lambda groups: groups.T)
    for block in BLOCKS:
        if columns % block == 0 and columns > block:
            yield _Groups.fit(matrix.reshape(-1, block), lambda groups: groups.reshape(rows, columns))


def _symmetric(groups: _Groups, bits: int) -> tuple[Matrix, Matrix]:
    return groups.largest / np.float32(2 ** (bits - 1) - 1), np.zeros_like(groups.least)


def _full(groups: _Groups, bits: int) -> tuple[Matrix, Matrix]:
    return groups.largest / np.float32(2 ** (bits - 1)), np.zeros_like(groups.least)


def _between(groups: _Groups, bits: int) -> tuple[Matrix, Matrix]:
    return (groups.most - groups.least) / np.float32(2**bits - 1), groups.least


def _zero_point(groups: _Groups, bits: int) -> tuple[Matrix, Matrix]:
    return (groups.most - groups.least) / np.float32(2**bits - 1), np.zeros_like(groups.least)


SCHEMES: Sequence[Scheme] = (_symmetric, _full, _between, _zero_point)
"""By the largest magnitude, with or without its negative; and by the least and largest number, zero on the grid or
not."""


def _on_grid(numbers: Matrix, step: Matrix, zero: Matrix, digits: int) -> bool:
    """Whether nearly all numbers are whole multiples of the step; those that storing moved too far do not count."""
    size = np.abs(numbers)
    counted = (size <= DRIFT * 2.0**digits * step) & (size > step / 2)
    if counted.sum() < FEWEST:
        return False
    places = ((numbers - zero) / np.where(step > 0, step, 1))[counted]
    return bool(np.mean(np.abs(places - np.rint(places)) <= CLOSE) >= SHARE)


def _on_table(matrix: Matrix) -> Grid | None:
    """The grid of a matrix in which blocks of numbers, each over its largest, take few values, as in NF4 and FP4."""
    for block in BLOCKS:
        if matrix.size % block or matrix.size < LOOKED_AT:
            continue
        blocks = matrix.reshape(-1, block)
        groups = blocks[:: max(1, matrix.size // LOOKED_AT)]
        largest = np.abs(groups).max(axis=1, keepdims=True)
        if (largest > 0).all() and len(np.unique(np.rint(FINENESS * groups / largest))) <= LEVELS:
            return Grid(4, _gaps(blocks).reshape(matrix.shape))
    return None


def _gaps(blocks: Matrix) -> Matrix:
    """The distance of each number from those next to it in its block (g, n), the mean of both sides."""
    order = np.argsort(blocks, axis=1, kind="stable")
    ascending = np.take_along_axis(blocks, order, axis=1)
    rises = np.diff(ascending, axis=1)
    below, above = np.zeros_like(blocks), np.zeros_like(blocks)
    for place in range(rises.shape[1]):  # equal numbers have the neighbours of the first, and of the last of them
        rise = rises[:, place]
        below[:, place + 1] = np.where(rise > 0, rise, below[:, place])
        rise = rises[:, -1 - place]
        above[:, -2 - place] = np.where(rise > 0, rise, above[:, -1 - place])
    sides = np.where(below > 0, below, above), np.where(above > 0, above, below)
    gaps = np.empty_like(blocks)
    np.put_along_axis(gaps, order, (sides[0] + sides[1]) / 2, axis=1)
    return gaps
