"""Codes: the grid that a stored tensor's numbers are chosen from, and how far a number is from what its format stores.

A tensor is decoded with the least code everywhere, and with the largest: both ends of the grid of each number, even if
it was packed, joined or permuted. A number is right if the value of its code is the nearest that its grid offers. A
grid may be too small or too coarse: numbers beyond it may be only as far as quantizers leave them. The numbers of a
block have to reach its end.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Parts = Sequence[NDArray[Any]]
Decode = Callable[[Parts], NDArray[Any]]  # from the stored parts of a tensor to the tensor
Pair = tuple[int, int]
Fill = Callable[[Parts], Parts]  # from the stored parts of a tensor to the same with other codes, or other scales
Levels = NDArray[np.float32]  # (n,): the values of a grid between its least (0) and its largest (1), ascending

HALF = 2.0**-25  # half the smallest number of float16: models pass through that format before they are quantized
ROUNDED = 0.05  # steps beyond half a step by which a number may be off, as scales are rounded after codes
DIGITS = {"F32": 24, "F16": 11, "BF16": 8}  # binary digits of the formats of scales
ONE = 1.05  # steps by which a quantizer may clip, and a block's largest number fall short of its grid's end
Array = NDArray[np.float32]
Mask = NDArray[np.bool_]
SHARE = 0.525  # largest error of a scale, in steps of the scales, with its own rounding
CUT = 2.0  # how far a search for scales may leave a number beyond its grid, over the grid's width and a step of scales
LOOSE = 0.65  # how far it may leave a block from its ends, over that width; half as far where one end is enough
MOST_CUT, MOST_LOOSE = 0.005, 0.01  # the share of numbers, and of blocks, that may be so far
EVEN, NARROW = 1e-6, 1e-6  # largest difference between the steps of a uniform grid; width of that of a block of zeros


@dataclass(frozen=True)
class ScaleStep:
    """One step of the scales of a tensor, where they are rounded to a grid of their own."""

    fills: tuple[Fill, Fill]  # decoded with the first, a tensor differs by one step a number from the second
    most: float = math.inf  # the largest, as a share of the widest grid among `group_size` numbers
    group_size: int = 1  # the number of consecutive numbers whose scales share a scale of their own


@dataclass(frozen=True)
class Codes:
    """The grid of one stored tensor, and the largest errors that a quantizer of its format leaves."""

    name: str  # the name of the format, in words
    low: Fill
    high: Fill
    decode: Decode  # to matrices (rows, columns), before what a converter did is undone
    levels: Levels
    block: Pair  # rows and columns that share a scale
    both: bool = False  # whether a grid reaches from the least number to the largest, not by the largest size alone
    slack: float = ROUNDED  # largest distance of a number from its value, in steps beyond half a step
    least: float = HALF  # distance from its value that a number may always have, in units of the weights
    clip: float = ONE  # largest distance of a number beyond its grid from its end, in steps beyond half a step
    reach: float = ONE  # largest distance of a block's outermost number from its grid's end, in steps there
    steps: tuple[ScaleStep, ...] = ()  # steps of the scales; empty where none are rounded, or `slack` covers it
    early: bool = False  # whether codes are chosen before scales are rounded, so that these steps count for all numbers
    searched: bool = False  # whether scales are found by a search for a small error, which may cut some numbers off
    more_slack: float = 0.0  # further steps by which some may be off, where scales are fitted to others afterwards
    zero: bool = False  # whether every grid reaches to 0, on whichever side of it its numbers lie
    flat: bool = False  # whether blocks are of numbers one after another, whatever the rows


def uniform(count: int) -> Levels:
    """Return the grid of so many values with equal steps."""
    return np.linspace(0, 1, count, dtype=np.float32)


def table(values: Iterable[float]) -> Levels:
    """Return the grid of these values, each once."""
    ascending = np.unique(np.array([*values], np.float64))
    whole = (ascending - ascending[0]) / (ascending[-1] - ascending[0])
    return np.asarray(whole, np.float32)


def _change_part(place: int, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Fill:
    return lambda parts: [*parts[:place], change(parts[place]), *parts[place + 1 :]]


def filled_ends(place: int, low: int, high: int) -> tuple[Fill, Fill]:
    """Return two functions that set every byte of one part: to that of the least codes, and of the largest."""

    def fill(byte: int, part: NDArray[Any]) -> NDArray[Any]:
        return np.full(part.nbytes, byte, np.uint8).view(part.dtype).reshape(part.shape)

    return _change_part(place, partial(fill, low)), _change_part(place, partial(fill, high))


def step_part(place: int, step: int) -> Fill:
    """Return a function that adds a step to every byte of one part, within 0 to 255."""

    def change(part: NDArray[Any]) -> NDArray[Any]:
        moved = np.clip(part.view(np.uint8).astype(np.int16) + step, 0, 255)
        return moved.astype(np.uint8).view(part.dtype)

    return _change_part(place, change)


def within_blocks(size: int, *patterns: tuple[int, bytes]) -> Fill:
    """Return a function that writes patterns into every block of `size` bytes of the first part, each at its start."""

    def change(stored: NDArray[Any]) -> NDArray[Any]:
        blocks = np.array(stored, np.uint8).reshape(-1, size)
        for start, pattern in patterns:
            blocks[:, start : start + len(pattern)] = np.frombuffer(pattern, np.uint8)
        return blocks.reshape(stored.shape)

    return _change_part(0, change)


def slack(levels: Levels, dtype: str) -> float:
    """Return the steps beyond half a step by which a number may be off, given the format of its scale."""
    # A rounded scale moves a number by at most the format's rounding times the steps between it and zero.
    return float(ROUNDED + 2 * len(levels) * 2.0 ** -(DIGITS.get(dtype, math.inf) + 1))


def integers(
    name: str, decode: Decode, bits: int, block: Pair, scales: str, ends: Pair = (0x00, 0xFF), **rules: Any
) -> Codes:
    """Return the grid of integers in the first part, given the format of their scales and the bytes of its ends."""
    levels = uniform(2**bits)
    least = HALF * (2 * len(levels) if scales == "F16" else 1)  # the smallest scales are float16's smallest numbers
    # Libraries may divide by half a step less than the steps that there are, or shift a grid so that 0 is on it.
    rules |= {"slack": slack(levels, scales), "least": least, "reach": 1.55}
    return Codes(name, *filled_ends(0, *ends), decode, levels, block, **rules)


def all_near(base: Array, numbers: Array, ends: tuple[Array, Array], codes: Codes) -> bool:
    """Return, in a fraction of the time of `excess`, whether all numbers are as near as a grid of equal steps asks."""
    rises = np.diff(codes.levels)
    if np.ptp(rises) > EVEN:
        return False
    with np.errstate(all="ignore"):
        limit = np.abs(ends[1] - ends[0])
        limit *= np.float32((0.5 + min(codes.slack, codes.clip)) * rises[0])
        return bool(np.all(np.abs(base - numbers) <= limit) and np.all(np.isfinite(limit)))


def excess(
    base: Array, numbers: Array, ends: tuple[Array, Array], codes: Codes, free: Array | float = 0.0, first: float = 0.0
) -> tuple[Array, Mask]:
    """Return for each number how much further from the base's it is than its format leaves, in steps of its grid.

    Beside it which of these a quantizer leaves that fits its scales to other numbers. `ends` are those of each number's
    grid, `free` is one step of the scales. `first` is the largest change, beside its size, of a number rounded before.
    """
    low, high = ends
    with np.errstate(all="ignore"):
        width = high - low
        at, own = (base - low) / width, (numbers - low) / width
        rises = np.diff(codes.levels)
        gap: Array | np.float32 = rises[0]  # between the value of a number and the next one towards the base's
        if np.ptp(rises) > EVEN:
            place = np.searchsorted((codes.levels[1:] + codes.levels[:-1]) / 2, own)
            place -= at <= own
            gap = rises[np.clip(place, 0, len(rises) - 1)]
        beyond = ((at > 1) & (own > 1 - gap / 2)) | ((at < 0) & (own < gap / 2)) | (width == 0)
        del at, own
        width = np.abs(width, out=width)
        off = np.abs(base - numbers) - codes.least
        if first:
            off -= np.abs(base) * np.float32(first)
        left = off - SHARE * np.where(beyond | codes.early, free, 0)
        size = width * gap
        steps = np.where(size > 0, left / size - 0.5, np.where(left > 0, np.inf, -0.5))
        steps -= np.where(beyond & (size > 0), codes.clip, codes.slack)
        cut = (steps > 0) & (steps <= codes.more_slack)
        if codes.searched:
            cut |= beyond & (steps > 0) & (left <= CUT * (width + free))
    steps[np.isnan(steps) | ~np.isfinite(base) | ~np.isfinite(numbers) | ~np.isfinite(width)] = np.inf
    return steps, cut


def miss_ends(numbers: Array, ends: tuple[Array, Array], codes: Codes, free: Array | float = 0.0) -> tuple[Mask, Mask]:
    """Return for each block whether it falls short of the ends of its grid, and whether by more than searches leave.

    Everything is as the tensor is stored, (..., r, c); the result is (..., r / rows, c / columns) of a block.
    """
    spread = np.broadcast_to(np.asarray(free, np.float32), numbers.shape)
    low, high, spare = (_rows(one, codes)[..., :: codes.block[0], :: codes.block[1]] for one in (*ends, spread))
    most, least = (_extremes(function, numbers, codes) for function in (np.maximum, np.minimum))
    rises = np.diff(codes.levels)
    with np.errstate(all="ignore"):
        first, last = np.abs(high - low) * rises[0], np.abs(high - low) * rises[-1]
        turned = high < low
        top, bottom = np.maximum(low, high), np.minimum(low, high)
        if codes.zero:
            most, least = np.maximum(most, 0), np.minimum(least, 0)
        at_top, at_bottom = np.where(turned, first, last), np.where(turned, last, first)
        above, below = top - most - SHARE * spare, least - bottom - SHARE * spare
        short = [above > codes.reach * at_top, below > codes.reach * at_bottom]
        most_far = (LOOSE if codes.both else LOOSE / 2) * (top - bottom)
        far = [one > most_far for one in (above, below)]
        any_or_all = np.logical_or if codes.both else np.logical_and
        wide = top - bottom > NARROW
    return any_or_all(*short) & wide, any_or_all(*far) & wide


def count_big(step: Array, width: Array, most: float, together: int) -> int:
    """Return in how many groups of numbers a step of the scales is larger, beside their grids, than it ever is."""
    # Scales that share one of their own use its whole range, so that a step is small beside the widest grid.
    starts = np.arange(0, step.size, together)
    largest, widest = (np.maximum.reduceat(np.abs(one).ravel(), starts) for one in (step, width))
    return int(np.sum((largest > most * widest) & (widest > NARROW)))


def idle(numbers: Array, base: Array, codes: Codes) -> Mask:
    """Return for each block, as `miss_ends` has them, whether all its numbers are 0, and the base's as well."""
    none: Mask = _extremes(np.maximum, np.maximum(np.abs(numbers), np.abs(base)), codes) == 0
    return none


def _rows(values: Array, codes: Codes) -> Array:
    return values.reshape(*values.shape[:-2], 1, -1) if codes.flat or values.ndim == 1 else values


def _extremes(function: Any, values: Array, codes: Codes) -> Array:
    (height, width), whole = codes.block, _rows(values, codes)
    rows, columns = whole.shape[-2:]
    if columns % width == 0:
        whole = function.reduce(whole.reshape(*whole.shape[:-1], -1, width), axis=-1)
    else:
        whole = function.reduceat(whole, np.arange(0, columns, width), axis=-1)
    extremes: Array = whole if height == 1 else function.reduceat(whole, np.arange(0, rows, height), axis=-2)
    return extremes


def cast(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers rounded to a format; what it cannot hold is infinite."""
    with np.errstate(all="ignore"):
        result: NDArray[Any] = numbers.astype(dtype)
    return result
