"""Strict: every number of a model held against the base's, as the format of each tensor would store it.

Large tensors are read some rows at a time where their format allows it, so that two matrices are in memory at once.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checking.result import ModelOrVerdict
from hf_lineage.checkpoint.codes import MOST_CUT, MOST_LOOSE, Codes, all_near, cast, count_big, excess, idle, miss_ends
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import TensorInfo, single
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence.evaluate import with_strict
from hf_lineage.evidence.executed import CASTS, Beyond, Strict
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub import client
from hf_lineage.source.differences import Pairing, pair_tensors
from hf_lineage.source.headers import Headers, read_headers

AT_ONCE = 2**22  # Numbers that are looked at together: each takes several times its memory
Array = NDArray[np.float32]


@dataclass(frozen=True)
class CodedRows:
    """Some rows of a tensor in a quantized format, beside the base's."""

    info: TensorInfo
    codes: Codes
    parts: Sequence[NDArray[Any]]
    numbers: Array
    base: Array
    start: int  # The first of these rows

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

    def count_big(self) -> int:
        """Return the number of groups in which a step of the scales is larger than quantizers make it."""
        low, high = self.ends(raw=True)
        count = 0
        for step in self.codes.steps:
            one, other = (single(self.codes.decode(fill(self.parts))) for fill in step.fills)
            count += count_big(one - other, high - low, step.most, step.group_size) if math.isfinite(step.most) else 0
        return count


@dataclass
class Tally:
    """The faults of one tensor so far."""

    name: str
    numbers: int
    beyond: int = 0
    clipped: int = 0  # Numbers that lie beyond their grid as a search for scales leaves some
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
            some, single_base = flat[at : at + height], single(of_base[at : at + height])
            rounded = cast(of_base[at : at + height], some.dtype)
            wrong = ~((some == rounded) | (np.isnan(single(some)) & np.isnan(single_base)))
            if free:
                wrong &= ~(np.abs(single(some) - single_base) <= free * (1 + np.abs(single_base)))
            if not wrong.any():
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(np.spacing(rounded[wrong])).astype(np.float64)
                steps = np.abs(some[wrong].astype(np.float64) - rounded[wrong].astype(np.float64)) / gap
            left = np.zeros(wrong.shape)
            left[wrong] = np.where(np.isfinite(steps), steps, np.inf)
            self._add_steps(left, start + at)

    def add_coded(self, some: CodedRows, first: float) -> None:
        """Count numbers that are not the nearest of their grid to the base's, and blocks whose grid is too coarse."""
        ends, plain = some.ends(raw=False), some.info.decode is some.codes.decode  # with nothing undone
        blocks = (some.numbers, ends) if plain else (single(some.codes.decode(some.parts)), some.ends(raw=True))
        short, far = miss_ends(*blocks, some.codes)
        if short.any() and some.codes.steps:
            self.far += some.count_big()
            short, far = miss_ends(*blocks, some.codes, some.step(raw=True))
        if short.any() and plain:
            short &= ~idle(some.numbers, some.base, some.codes)
        self.blocks += short.size
        self.short += int(short.sum())
        self.far += int((short & far if some.codes.searched else short).sum())
        free: Array | None = None
        height = max(1, AT_ONCE // max(1, some.numbers[0].size))
        for at in range(0, len(some.numbers), height):
            rows = slice(at, at + height)
            arrays = some.base[rows], some.numbers[rows], (ends[0][rows], ends[1][rows])
            if all_near(*arrays, some.codes):
                continue
            steps, cut = excess(*arrays, some.codes, first=first)
            if (steps > 0).any() and some.codes.steps:
                if free is None:
                    free, self.far = some.step(raw=False), self.far + some.count_big()
                steps, cut = excess(*arrays, some.codes, free[rows], first)
            self._add_steps(steps, some.start + at, cut)

    def _add_steps(self, steps: NDArray[Any], start: int, cut: NDArray[np.bool_] | None = None) -> None:
        beyond = steps > 0 if cut is None else (steps > 0) & ~cut
        self.beyond += int(beyond.sum())
        self.clipped += 0 if cut is None else int(cut.sum())
        if beyond.any():
            self.worst = max(self.worst, _largest(np.where(beyond, steps, 0), start))
        if cut is not None and cut.any():
            self.worst_cut = max(self.worst_cut, _largest(np.where(cut, steps, 0), start))

    def result(self) -> Beyond | None:
        """Return the faults of the tensor; None if it has none."""
        beyond, worst, coarse = self.beyond, self.worst, self.far
        if self.clipped > max(1, MOST_CUT * self.numbers):
            beyond, worst = beyond + self.clipped, max(worst, self.worst_cut)
        if self.short > max(1, MOST_LOOSE * self.blocks):
            coarse = self.short
        return Beyond(self.name, self.numbers, beyond, *worst, coarse) if beyond or coarse else None


def _largest(steps: NDArray[Any], start: int) -> tuple[float, tuple[int, ...]]:
    place = np.unravel_index(int(steps.argmax()), steps.shape)
    first, *rest = map(int, place)
    return float(steps[place]), (first + start, *rest)


def judge_strict(base: ModelOrVerdict, candidate: ModelOrVerdict, outcome: Verdict) -> Verdict:
    """Return a verdict with every number compared, unverified where one is not the base's; else OptionError."""
    if isinstance(base, Verdict) or isinstance(candidate, Verdict):
        return outcome
    opened = list[Headers]()
    for model in (base, candidate):
        if model.reopen is None:
            name = printable(model.name, 200)
            raise OptionError(f"--strict reads every number, but {name} is a stored signature; name the model instead")
        headers = model.reopen()  # on the Hub it may have ended its downloads for the verdict
        opened.append(read_headers(headers.model_config) if headers.checkpoint.remote else headers)
    name = f"{base.name} at commit {base.commit}" if base.commit else base.name
    return with_strict(outcome, _compare_numbers(name, pair_tensors(*opened)))


def _compare_numbers(base_name: str, pairing: Pairing) -> Strict:
    stored, beyond, unbound = Counter[str](), list[Beyond](), dict[str, str]()
    total = sum(pairing.candidate.tensors[name].numbers for name, _ in pairing.pairs)
    with client.progress()(total=total, desc="numbers", unit_scale=True, leave=False) as shown:
        ahead = [*pairing.pairs[1:], None]
        for (name, other), following in zip(pairing.pairs, ahead, strict=True):
            if following:
                pairing.candidate.prefetch(following[0])
                pairing.base.prefetch(following[1])
            result = _compare_storage(pairing, name, other)
            if isinstance(result, Beyond):
                beyond.append(result)
            elif isinstance(result, _Unbound):
                unbound[name] = result
            else:
                stored[result] += 1
            shown.update(pairing.candidate.tensors[name].numbers)
    beyond.sort(key=lambda one: -one.excess)
    of_one = pairing.added, pairing.lacking, pairing.copies
    return Strict(base_name, stored, tuple(beyond), unbound, *of_one, settings=pairing.settings)


class _Unbound(str):
    """Why a tensor cannot be held against the base's number by number."""

    __slots__ = ()


def _compare_storage(pairing: Pairing, name: str, other: str) -> Beyond | _Unbound | str:
    """Return the storage of one tensor if it is the base's, what is wrong with it, or why that cannot be told."""
    info, of_base = pairing.candidate.tensors[name], pairing.base.tensors[other]
    if info.shape != of_base.shape and not info.numbers == of_base.numbers == 1:
        return Beyond(name, info.numbers, 0, 0.0, why=f"has shape {info.shape}, and {of_base.shape} in the base")
    if refusal := info.refusal or of_base.refusal:  # a position table, say: it is not read as numbers
        if len(info.parts) != 1 or len(of_base.parts) != 1:
            return _Unbound(refusal)
        (own,), (base,) = pairing.candidate.read_parts(name), pairing.base.read_parts(other)
        alike = own.dtype == base.dtype and np.array_equal(own, base)
        return "" if alike else Beyond(name, info.numbers, 0, 0.0, why="holds other numbers than the base's")
    tally, codes, equal = Tally(name, info.numbers), info.codes, True
    first = 2.0**-9 if _dtype(pairing.base, of_base) in ("F32", "F64") else 0.0  # bfloat16 before
    for start, parts, numbers, base in _chunks(pairing, name, other):
        if np.array_equal(numbers, base):
            continue
        equal = False
        if isinstance(codes, Codes):
            tally.add_coded(CodedRows(info, codes, parts, single(numbers), single(base), start), first)
        else:
            tally.add_cast(numbers, base, start, 2.0**-24 if info.itemsize else 0.0)  # what adding 1 to a gain leaves
    if equal:
        return ""
    if isinstance(codes, Codes):
        return tally.result() or codes.name
    dtype, unknown = _dtype(pairing.candidate, info), "hf-lineage knows no bound for the rounding of its format"
    return (tally.result() or dtype) if dtype in CASTS else _Unbound(codes or unknown)


def _dtype(checkpoint: Checkpoint, info: TensorInfo) -> str:
    """Return the format of the first part; metadata hold numbers of float32."""
    return checkpoint.stored[info.parts[0]].dtype if info.parts else "F32"


def _chunks(pairing: Pairing, name: str, other: str) -> Iterator[tuple[int, list[Any], NDArray[Any], NDArray[Any]]]:
    """Yield the numbers of a tensor, from which row on, what they are decoded from, and the base's."""
    candidate, base = pairing.candidate, pairing.base
    info, of_base = candidate.tensors[name], base.tensors[other]
    by_rows, count = candidate.row_parts(name) and base.row_parts(other), info.shape[0] if info.shape else 1
    height = max(1, AT_ONCE // info.shape[1] if by_rows else count)
    for start in range(0, count, height):
        rows = slice(start, min(start + height, count)) if by_rows else None
        parts = candidate.read_parts(name, rows)
        yield start, parts, info.decode(parts), of_base.decode(base.read_parts(other, rows))
