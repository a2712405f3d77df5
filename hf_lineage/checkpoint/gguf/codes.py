"""GGUF: the places of the codes in a block of each of llama.cpp's types, and the errors that its quantizers leave.

A code of IQ1, IQ2 or IQ3 stands for a whole vector of numbers, and is chosen by a weighted error of the vector. So no
bound holds for each number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.checkpoint.codes import Codes, Levels, Step, table, uniform, within_blocks

VECTORS = (
    "{} chooses among tabled vectors of several numbers by a weighted error, so that no bound holds for each number"
)
"""Why no bound holds for each number."""
NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
E2M1 = (-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6)
LEAST = b"\x01\x00"
"""The smallest number of float16: the step of a scale that is small."""
SEARCHED = 2.0
"""Steps by which the numbers of a block may fall short of the end of a grid whose scale was searched for."""
TOGETHER = 256
"""Numbers of a block whose scales share one of their own."""
FITTED = 0.65
"""Steps that an importance matrix may leave beside the rest where it fits a scale after the codes were chosen."""
Pattern = tuple[int, bytes]
Patterns = tuple[tuple[Pattern, ...], tuple[Pattern, ...]]


@dataclass(frozen=True)
class Kind:
    """One type: the places of its codes in a block, and their grid."""

    size: int
    """Bytes of a block."""
    codes: tuple[int, int]
    """The position of the first byte of the codes, and the one behind the last."""
    levels: Levels
    share: int
    """Numbers that share a scale."""
    ends: tuple[int, int] = (0x00, 0xFF)
    """The byte that holds the least codes, and the largest."""
    steps: tuple[Patterns, ...] = ()
    """Pairs of patterns of bytes in a block; the blocks that the two decode to are one step of the scales apart."""
    most: float = math.inf
    """The largest step of the scales, as a share of the block's widest grid; it does not bound a step of float16."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """The errors that its quantizers leave, by the names of the fields of `Codes`."""


def _plain(size: int, start: int, levels: Levels, ends: tuple[int, int] = (0x00, 0xFF), **rules: Any) -> Kind:
    """Return a type with 32 numbers a block, whose first bytes are a scale in float16."""
    low, high = ((start, bytes([end]) * (size - start)) for end in ends)
    scale = ((0, LEAST), low), ((0, LEAST), high)
    return Kind(size, (start, size), levels, 32, ends, (scale,), rules={"early": True, "moved": FITTED} | rules)


def _grouped(
    size: int,
    codes: tuple[int, int],
    levels: Levels,
    share: int,
    scale: int,
    one: tuple[Pattern, ...],
    most: float,
    minima: tuple[Patterns, ...] = (),
    **rules: Any,
) -> Kind:
    """Return a type whose scales are small integers, 1 in the patterns `one`, times a float16 at the byte `scale`."""
    start, stop = codes
    low, high = ((start, bytes([end]) * (stop - start)) for end in (0x00, 0xFF))
    steps = (((*one, low), (*one, high)), (((scale, LEAST), low), ((scale, LEAST), high)), *minima)
    usual = {"reach": SEARCHED, "searched": True, "both": bool(minima), "zero": bool(minima)}
    return Kind(size, codes, levels, share, steps=steps, most=most, rules=usual | rules)


def _minima(start: int, one: bytes, none: bytes) -> tuple[Patterns, ...]:
    return ((((start, one),), ((start, none),)),)


SIX = bytes([1] * 4 + [0] * 4 + [1] * 4)
"""Eight scales of six bits that are 1 each, with minima that are 0."""
SIX_MINIMA, SIX_NONE = bytes([0] * 4 + [1] * 4 + [0x10] * 4), bytes(12)
NV_SCALE = ((0, b"\x01" * 4), (4, b"\xff" * 32)), ((0, b"\x01" * 4), (4, b"\x77" * 32))
KINDS: Mapping[str, Kind] = {
    "Q4_0": _plain(18, 2, uniform(16)),
    "Q4_1": _plain(20, 4, uniform(16), both=True),
    "Q5_0": _plain(22, 2, uniform(32)),
    "Q5_1": _plain(24, 4, uniform(32), both=True),
    "Q8_0": _plain(34, 2, uniform(256), ends=(0x80, 0x7F), reach=1.55, moved=0.0),
    "Q2_K": _grouped(
        84,
        (16, 80),
        uniform(4),
        16,
        80,
        one=((0, b"\x01" * 16),),
        minima=_minima(0, b"\x10" * 16, bytes(16)),
        reach=1.55,
        most=0.1,
    ),
    "Q3_K": _grouped(110, (0, 96), uniform(8), 16, 108, one=((96, b"\x11" * 8 + b"\xaa" * 4),), most=0.035),
    "Q4_K": _grouped(
        144, (16, 144), uniform(16), 32, 0, one=((4, SIX),), minima=_minima(4, SIX_MINIMA, SIX_NONE), most=0.02
    ),
    "Q5_K": _grouped(
        176, (16, 176), uniform(32), 32, 0, one=((4, SIX),), minima=_minima(4, SIX_MINIMA, SIX_NONE), most=0.02
    ),
    "Q6_K": _grouped(210, (0, 192), uniform(64), 16, 208, one=((192, b"\x01" * 16),), most=0.0085),
    "IQ4_NL": _plain(18, 2, table(NONLINEAR)),
    "IQ4_XS": _grouped(
        136, (8, 136), table(NONLINEAR), 32, 0, one=((2, b"\xaa\xaa\x11\x11\x11\x11"),), early=True, most=0.035
    ),
    "MXFP4": Kind(17, (1, 17), table(E2M1), 32, ends=(0xFF, 0x77), rules={"clip": 1.1, "reach": 1.6}),
    "NVFP4": Kind(36, (4, 36), table(E2M1), 16, ends=(0xFF, 0x77), steps=(NV_SCALE,), rules={"reach": 1.6}),
    "TQ2_0": Kind(66, (0, 64), uniform(3), 256, ends=(0x00, 0xAA)),
    "TQ1_0": Kind(54, (0, 52), uniform(3), 256),
}
"""Name of a type in llama.cpp -> its layout."""


def codes_of(name: str, decode: Callable[..., Any]) -> Codes | str:
    """Return the grid of a type, or why no bound holds for its numbers; empty where nothing is known of it."""
    kind = KINDS.get(name)
    if kind is None:
        return VECTORS.format(name) if name.startswith("IQ") else ""
    start, stop = kind.codes
    low, high = (within_blocks(kind.size, (start, bytes([byte]) * (stop - start))) for byte in kind.ends)
    steps = tuple(_step(kind, pair) for pair in kind.steps)
    return Codes(name, low, high, decode, kind.levels, (1, kind.share), steps=steps, **kind.rules)


def _step(kind: Kind, pair: Patterns) -> Step:
    one, other = (within_blocks(kind.size, *patterns) for patterns in pair)
    smallest = any(pattern == LEAST for _, pattern in pair[0])
    return Step((one, other), math.inf if smallest else kind.most, TOGETHER)
