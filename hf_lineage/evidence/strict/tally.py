"""Tally: what is wrong with one tensor whose numbers are held against the base's, some rows after the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint import Codes, TensorInfo, single
from hf_lineage.evidence.strict.outcome import Beyond
from hf_lineage.evidence.strict.rule import MOST_CUT, MOST_LOOSE, all_near, cast, excess, idle, inflated, unreached

AT_ONCE = 2**22
"""Numbers that are looked at together: what is computed of them takes several times the memory of a number each."""
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Coded:
    """Some rows of a tensor in a quantized format, beside the base's."""

    info: TensorInfo
    codes: Codes
    parts: Sequence[NDArray[Any]]
    numbers: Array
    base: Array
    start: int
    """The first of these rows."""

    def ends(self, raw: bool) -> tuple[Array, Array]:
        """Return the least and the largest value of the grid of each number; `raw` before anything is undone."""
        decode = self.codes.decode if raw else self.info.decode
        return single(decode(self.codes.low(self.parts))), single(decode(self.codes.high(self.parts)))

    def step(self, raw: bool) -> Array:
        """Return the size of one step of the scales, for each number."""
        decode = self.codes.decode if raw else self.info.decode
        pairs = [[single(decode(fill(self.parts))) for fill in step.fills] for step in self.codes.steps]
        steps: Array = np.sum([np.abs(one - other) for one, other in pairs], axis=0, dtype=np.float32)
        return steps

    def inflated(self) -> int:
        """Return the number of groups in which a step of the scales is larger than quantizers make it."""
        low, high = self.ends(raw=True)
        count = 0
        for step in self.codes.steps:
            one, other = (single(self.codes.decode(fill(self.parts))) for fill in step.fills)
            count += inflated(one - other, high - low, step.most, step.together) if math.isfinite(step.most) else 0
        return count

    @property
    def as_decoded(self) -> bool:
        """Whether the tensor is what its parts are decoded to, with nothing undone."""
        return self.info.decode is self.codes.decode


@dataclass
class Tally:
    """The faults of one tensor so far."""

    name: str
    numbers: int
    equal: bool = True
    beyond: int = 0
    cut: int = 0
    """Numbers that lie beyond their grid as a search for scales leaves some."""
    worst: tuple[float, tuple[int, ...]] = (0.0, ())
    worst_cut: tuple[float, tuple[int, ...]] = (0.0, ())
    blocks: int = 0
    short: int = 0
    far: int = 0

    def add_cast(self, numbers: NDArray[Any], base: NDArray[Any], start: int, free: float) -> None:
        """Count numbers unlike the base's, rounded to their format; `free` is what adding 1 leaves, over the sum."""
        flat, of_base = np.atleast_1d(numbers), np.atleast_1d(base)
        height = max(1, AT_ONCE // max(1, flat[0].size))
        for at in range(0, len(flat), height):
            some, wanted = flat[at : at + height], of_base[at : at + height]
            rounded = cast(wanted, some.dtype)
            wrong = ~((some == rounded) | (np.isnan(single(some)) & np.isnan(single(wanted))))
            if free:
                wrong &= ~(np.abs(single(some) - single(wanted)) <= free * (1 + np.abs(single(wanted))))
            if not wrong.any():
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(np.spacing(rounded[wrong])).astype(np.float64)
                steps = np.abs(some[wrong].astype(np.float64) - rounded[wrong].astype(np.float64)) / gap
            left = np.zeros(wrong.shape)
            left[wrong] = np.where(np.isfinite(steps), steps, np.inf)
            self._take(left, start + at)

    def add_coded(self, some: Coded, first: float) -> None:
        """Count numbers that are not the nearest of their grid to the base's, and blocks whose grid is too coarse."""
        ends = some.ends(raw=False)
        self._add_blocks(some, ends if some.as_decoded else some.ends(raw=True))
        free: Array | None = None
        height = max(1, AT_ONCE // max(1, some.numbers[0].size))
        for at in range(0, len(some.numbers), height):
            rows = slice(at, at + height)
            held = some.base[rows], some.numbers[rows], (ends[0][rows], ends[1][rows])
            if all_near(*held, some.codes):
                continue
            steps, cut = excess(*held, some.codes, first=first)
            if (steps > 0).any() and some.codes.steps:
                if free is None:
                    free, self.far = some.step(raw=False), self.far + some.inflated()
                steps, cut = excess(*held, some.codes, free[rows], first)
            self._take(steps, some.start + at, cut)

    def _add_blocks(self, some: Coded, ends: tuple[Array, Array]) -> None:
        numbers = some.numbers if some.as_decoded else single(some.codes.decode(some.parts))
        short, far = unreached(numbers, ends, some.codes)
        if short.any() and some.codes.steps:
            self.far += some.inflated()
            short, far = unreached(numbers, ends, some.codes, some.step(raw=True))
        if short.any() and some.as_decoded:
            short &= ~idle(numbers, some.base, some.codes)
        self.blocks += short.size
        self.short += int(short.sum())
        self.far += int((short & far if some.codes.searched else short).sum())

    def _take(self, steps: NDArray[Any], start: int, cut: NDArray[np.bool_] | None = None) -> None:
        beyond = steps > 0 if cut is None else (steps > 0) & ~cut
        self.beyond += int(beyond.sum())
        self.cut += 0 if cut is None else int(cut.sum())
        if beyond.any():
            self.worst = max(self.worst, _largest(np.where(beyond, steps, 0), start))
        if cut is not None and cut.any():
            self.worst_cut = max(self.worst_cut, _largest(np.where(cut, steps, 0), start))

    def result(self) -> Beyond | None:
        """Return the faults of the tensor; None if it has none."""
        beyond, worst, coarse = self.beyond, self.worst, self.far
        if self.cut > max(1, MOST_CUT * self.numbers):
            beyond, worst = beyond + self.cut, max(worst, self.worst_cut)
        if self.short > max(1, MOST_LOOSE * self.blocks):
            coarse = self.short
        return Beyond(self.name, self.numbers, beyond, *worst, coarse) if beyond or coarse else None


def _largest(steps: NDArray[Any], start: int) -> tuple[float, tuple[int, ...]]:
    place = np.unravel_index(int(steps.argmax()), steps.shape)
    first, *rest = map(int, place)
    return float(steps[place]), (first + start, *rest)
