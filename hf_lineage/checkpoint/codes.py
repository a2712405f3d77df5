"""Codes: the grid that the numbers of a stored tensor are chosen from, found by decoding its least and largest codes.

A quantizer stores for each number the code of the nearest value that the grid of its block offers. No format needs an
encoder for that to be held against the original: decoded with the least code everywhere, and with the largest, a tensor
gives both ends of the grid of each number, however it was packed, joined, permuted or transposed.
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
"""How much further than half a step a number may be from its value, in steps: scales are rounded after codes."""
DIGITS = {"F32": 24, "F16": 11, "BF16": 8}
"""Binary digits of the formats of scales."""
ONE = 1.05
"""Steps by which a quantizer may clip, and by which the largest number of a block may fall short of its grid's end."""


@dataclass(frozen=True)
class Step:
    """One step of the scales of a tensor, where they are rounded to a grid of their own."""

    fills: tuple[Fill, Fill]
    """What is decoded with the one and with the other is one step apart, for each number."""
    most: float = math.inf
    """How large a step may be beside the widest grid among numbers whose scales share one of their own."""
    together: int = 1
    """How many numbers one after another those are."""


@dataclass(frozen=True)
class Codes:
    """How the codes of one tensor are stored, and what a quantizer of its format leaves."""

    name: str
    """Of the format, in words."""
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
    """In steps, beyond half a step."""
    least: float = HALF
    """How far a number may be from its value however fine its grid is, as a size."""
    clip: float = ONE
    """How far a number beyond the end of its grid may be from it, in steps beyond half a step."""
    reach: float = ONE
    """How far the outermost number of a block may be from the end of its grid, in steps at that end."""
    steps: tuple[Step, ...] = ()
    """None where scales are not rounded, or by less than `slack` holds."""
    early: bool = False
    """Whether codes are chosen before scales are rounded, so that these steps count for all numbers."""
    searched: bool = False
    """Whether scales are found by a search for a small error, which may cut some numbers off."""
    moved: float = 0.0
    """By how many more steps some numbers may be off where scales are fitted to others once codes are chosen."""
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
    """Return what sets every byte of one part."""

    def fill(parts: Parts) -> Parts:
        part = parts[place]
        whole = np.full(part.nbytes, byte, np.uint8).view(part.dtype).reshape(part.shape)
        return [*parts[:place], whole, *parts[place + 1 :]]

    return fill


def filled_ends(place: int, low: int, high: int) -> tuple[Fill, Fill]:
    """Return what sets one part to the bytes of the least code, and to those of the largest."""
    return filled(place, low), filled(place, high)


def stepped(place: int, step: int) -> Fill:
    """Return what moves every byte of one part by a step, as far as bytes go."""

    def fill(parts: Parts) -> Parts:
        moved = np.clip(parts[place].view(np.uint8).astype(np.int16) + step, 0, 255).astype(np.uint8)
        return [*parts[:place], moved.view(parts[place].dtype), *parts[place + 1 :]]

    return fill


def within_blocks(size: int, *patterns: tuple[int, bytes]) -> Fill:
    """Return what sets some bytes of every block of so many bytes, given where each pattern begins; one part, rows."""

    def fill(parts: Parts) -> Parts:
        (stored, *others) = parts
        blocks = np.array(stored, np.uint8).reshape(-1, size)
        for start, pattern in patterns:
            blocks[:, start : start + len(pattern)] = np.frombuffer(pattern, np.uint8)
        return [blocks.reshape(stored.shape), *others]

    return fill


def least(levels: Levels, dtype: str) -> float:
    """Return how far a number may be from its value however fine its grid is, by the format of its scale.

    The smallest scales of float16 are its smallest numbers, whatever multiplies them.
    """
    return HALF * (2 * len(levels) if dtype == "F16" else 1)


def slack(levels: Levels, dtype: str) -> float:
    """Return how much further than half a step a number may be whose scale, and perhaps its zero, was rounded so.

    Both move a number by at most the rounding of the format times the numbers of steps between it and zero.
    """
    digits = DIGITS.get(dtype)
    return ROUNDED if digits is None else float(ROUNDED + 2 * len(levels) * 2.0 ** -(digits + 1))
