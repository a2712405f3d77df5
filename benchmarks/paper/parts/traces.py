"""Traces of adapters: what the library finds of one base in one adapter, and how often over many pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.parts.adapters import Configuration, Family, Workshop
from hf_lineage import Options, compare
from hf_lineage.lora.gradient_alignment import FADED, WHOLE, Trace

ALPHA = 0.01
REPLICATES = 2000
"""Draws of bases for an interval."""


@dataclass(frozen=True)
class Pair:
    """An adapter beside a base."""

    family: Family
    configuration: Configuration
    steps: int
    own: int
    """The base that the adapter was trained on, and that beside which it is tested."""
    base: int
    verdict: str
    verified: bool
    trace: Trace

    @property
    def true(self) -> bool:
        """Whether the adapter was trained on this base."""
        return self.own == self.base


def tested(
    workshop: Workshop, family: Family, configuration: Configuration, steps: int, own: int, base: int, permutations: int
) -> Pair:
    """Return what `hf-lineage compare` says of an adapter and a base."""
    adapter = workshop.adapter(family, own, configuration, steps)
    options = Options(seed=0, permutations=permutations)
    (row,) = compare(str(workshop.base(family, base)), str(adapter), options).rows
    if row.verdict.trace is None:
        raise ValueError(f"{family.name}, {configuration.name}: {row.verdict.reason}")
    return Pair(family, configuration, steps, own, base, row.verdict.word, row.verdict.verified, row.verdict.trace)


@dataclass(frozen=True)
class Rate:
    """How often independent pairs are rejected."""

    share: float
    low: float
    high: float
    pairs: int


def rate(pairs: Sequence[Pair], alpha: float) -> Rate:
    """Return the share of pairs with p <= alpha and its 95 % interval, from whole bases drawn again with repetition.

    A base is in many pairs, by itself and by the adapters that were trained on it, so pairs alone may not be drawn.
    """
    names = sorted({(pair.family.name, number) for pair in pairs for number in (pair.own, pair.base)})
    places = {name: place for place, name in enumerate(names)}
    counts = np.zeros((2, len(names), len(names)))
    for pair in pairs:
        where = places[pair.family.name, pair.own], places[pair.family.name, pair.base]
        counts[0][where] += pair.trace.p_value <= alpha
        counts[1][where] += 1
    random = np.random.default_rng(0)
    drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), REPLICATES)
    rejected, everything = (np.einsum("ni,ij,nj->n", drawn, each, drawn) for each in counts)
    shares = (rejected / np.maximum(everything, 1))[everything > 0]
    low, high = np.quantile(shares, (0.025, 0.975))
    return Rate(float(counts[0].sum() / counts[1].sum()), float(low), float(high), int(counts[1].sum()))


def found_alone(pairs: Iterable[Pair], role: str) -> list[bool]:
    """Return for each matrix of a role, over some pairs, whether the trace in it alone has p <= ALPHA."""
    found = []
    for pair in pairs:
        columns = (column for of, column in zip(pair.trace.roles, pair.trace.ratios.T, strict=True) if of == role)
        found += [bool(np.mean(column >= column[0]) <= ALPHA) for column in columns]
    return found


def least(pairs: Iterable[Pair], role: str) -> float:
    """Return the least z of a role over the root of the directions that predict it, as `Trace.power` counts them.

    Those that predict nothing are left out; NaN where none is left.
    """
    found: list[float] = []
    for pair in pairs:
        trace = pair.trace
        if role in trace.by_role:
            rows = np.array(trace.roles) == role
            left = np.clip((FADED - trace.sizes[rows]) / (FADED - WHOLE), 0, 1)
            shown = float((trace.directions[rows] * left**2).sum())
            found += [trace.z_of(role) / shown**0.5] if shown >= 1 else []
    return min(found, default=math.nan)
