"""Codes: the grid that the numbers of a stored tensor are chosen from, found by decoding its least and largest codes.

A quantizer stores for each number the code of the nearest value that the grid of its block offers. To check that, no
format needs an encoder. A tensor is decoded with the least code everywhere, and with the largest: that gives both ends
of the grid of each number, even if it was packed, joined, permuted or transposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Parts = Sequence[NDArray[Any]]
Fill = Callable[[Parts], Parts]
"""From the stored parts of a tensor to the same with other codes, or other scales."""
Levels = NDArray[np.float32]
"""(n,): the values of a grid between its least (0) and its largest (1), ascending."""

HALF = 2.0**-25
"""Half the smallest number of float16: models pass through that format before they are quantized."""
ROUNDED = 0.05
"""Steps, beyond half a step, by which a number may be off its value, because scales are rounded after codes."""
DIGITS = {"F32": 24, "F16": 11, "BF16": 8}
"""Binary digits of the formats of scales."""
ONE = 1.05
"""Steps by which a quantizer may clip, and by which the largest number of a block may fall short of its grid's end."""


@dataclass(frozen=True)
class Step:
    """One step of the scales of a tensor, where they are rounded to a grid of their own."""

    fills: tuple[Fill, Fill]
    """Two fills; a tensor decoded with the first differs from one decoded with the second by one step a number."""
    most: float = math.inf
    """The largest step, as a share of the widest grid among numbers whose scales share a scale of their own."""
    together: int = 1
    """The number of consecutive numbers whose scales share a scale of their own."""


@dataclass(frozen=True)
class Codes:
    """The grid of one stored tensor, and the largest errors that a quantizer of its format leaves."""

    name: str
    """The name of the format, in words."""
    low: Fill
    high: Fill
    decode: Callable[[Parts], NDArray[Any]]
    """The tensor (rows, columns), or several of them, before anything that a converter did is undone."""
    levels: Levels
    block: tuple[int, int]
    """Rows and columns that share a scale."""
    both: bool = False
    """Whether the grid of a block reaches from its least number to its largest, and not from the largest size alone."""
    slack: float = ROUNDED
    """Largest distance of a number from its value, in steps beyond half a step."""
    least: float = HALF
    """Distance from its value that a number may have however fine its grid is, in units of the weights."""
    clip: float = ONE
    """Largest distance from its grid of a number beyond the end of the grid, in steps beyond half a step."""
    reach: float = ONE
    """Largest distance of the outermost number of a block from the end of its grid, in steps at that end."""
    steps: tuple[Step, ...] = ()
    """Steps of the scales; empty where scales are not rounded, or where `slack` covers their rounding."""
    early: bool = False
    """Whether codes are chosen before scales are rounded, so that these steps count for all numbers."""
    searched: bool = False
    """Whether scales are found by a search for a small error, which may cut some numbers off."""
    moved: float = 0.0
    """Further steps by which some numbers may be off, where scales are fitted to others once codes are chosen."""
    zero: bool = False
    """Whether every grid reaches to 0, on whichever side of it its numbers lie."""
    flat: bool = False
    """Whether blocks are of numbers one after another, whatever the rows."""


def uniform(count: int) -> Levels:
    """Return the grid of so many values with equal steps."""
    return np.linspace(0, 1, count, dtype=np.float32)


def table(values: Iterable[float]) -> Levels:
    """Return the grid of these values, each once.

    >>> table([1.0, -1.0, 0.0, 0.0])
    array([0. , 0.5, 1. ], dtype=float32)
    """
    ascending = np.unique(np.array([*values], np.float64))
    whole = (ascending - ascending[0]) / (ascending[-1] - ascending[0])
    return np.asarray(whole, np.float32)


def filled(place: int, byte: int) -> Fill:
    """Return a function that sets every byte of one part."""

    def fill(parts: Parts) -> Parts:
        part = parts[place]
        whole = np.full(part.nbytes, byte, np.uint8).view(part.dtype).reshape(part.shape)
        return [*parts[:place], whole, *parts[place + 1 :]]

    return fill


def filled_ends(place: int, low: int, high: int) -> tuple[Fill, Fill]:
    """Return two functions that set one part to the bytes of the least code, and to those of the largest."""
    return filled(place, low), filled(place, high)


def stepped(place: int, step: int) -> Fill:
    """Return a function that adds a step to every byte of one part, within 0 to 255."""

    def fill(parts: Parts) -> Parts:
        moved = np.clip(parts[place].view(np.uint8).astype(np.int16) + step, 0, 255).astype(np.uint8)
        return [*parts[:place], moved.view(parts[place].dtype), *parts[place + 1 :]]

    return fill


def within_blocks(size: int, *patterns: tuple[int, bytes]) -> Fill:
    """Return a function that writes patterns into every block of `size` bytes of the first part, each at its start."""

    def fill(parts: Parts) -> Parts:
        (stored, *others) = parts
        blocks = np.array(stored, np.uint8).reshape(-1, size)
        for start, pattern in patterns:
            blocks[:, start : start + len(pattern)] = np.frombuffer(pattern, np.uint8)
        return [blocks.reshape(stored.shape), *others]

    return fill


def least(levels: Levels, dtype: str) -> float:
    """Return the distance from its value that a number may have however fine its grid is, by the format of its scale.

    The smallest scales of float16 are its smallest numbers, whatever multiplies them.
    """
    return HALF * (2 * len(levels) if dtype == "F16" else 1)


def slack(levels: Levels, dtype: str) -> float:
    """Return the steps beyond half a step by which a number may be off, given the format of its scale.

    A rounded scale, or zero point, moves a number by at most the format's rounding times the steps between it and zero.
    """
    digits = DIGITS.get(dtype)
    return ROUNDED if digits is None else float(ROUNDED + 2 * len(levels) * 2.0 ** -(digits + 1))
