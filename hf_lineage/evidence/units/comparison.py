"""Unit comparison: what two models show unit by unit, in coordinates that both share.

The residual streams of the two may have been rotated, reordered or changed in width.

It gives two kinds of evidence, which reports never mix up. The order of units is tested exactly. The share of inherited
units also finds models whose units were put into another order. But independent models of one vocabulary have the
geometry of its tokens in common. So the share is compared with what was measured between such models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.evidence.paths import assign, in_order
from hf_lineage.evidence.units.experts import by_expert
from hf_lineage.evidence.units.inherited import Inherited
from hf_lineage.evidence.units.order import MOST_UNITS, UnitOrder, copies, order_test
from hf_lineage.evidence.units.shares import inherited_share
from hf_lineage.signature import Vector
from hf_lineage.signature.units import Layers, UnitRows, likeness

TOKEN: str = "token"  # noqa: S105 - a frame, not a secret
RESIDUAL: str = "residual"
PROCRUSTES: str = "procrustes"
"""The names of frames: the rows of shared tokens, the coordinates of the residual stream, and those in which hidden
units fit those of the base best."""
HEAVIEST, OF_BASE = 64, 1024
"""Numbers of units of a layer that write most, of the candidate and of the base, by which layers are paired."""
LITTLE = 0.05
"""A share that says nothing: independent models of one vocabulary have as much in common."""
IN_ORDER = 0.02
"""Largest uncorrected p of the order of units, in the layers that are read first, with which others are read for it:
units that are copied in their order, even in one of these layers, have the least p that the permutations allow."""
CANCELLED = 0.5
"""Least share that remains of what all units write: with less, most of what they write says nothing."""


@dataclass(frozen=True)
class Frame:
    """The coordinates in which two models are seen unit by unit."""

    name: str
    """TOKEN, RESIDUAL or PROCRUSTES."""
    tokens: int = 0
    """Number of shared tokens; 0 where none are needed."""
    by: str = ""
    """Property by which tokens are known to be the same, in a word."""


@dataclass(frozen=True)
class Framed:
    """Two models compared unit by unit."""

    frame: Frame
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of the layers that were read, of the base and of the candidate."""
    depth: int
    """Number of the candidate's layers that have hidden units."""
    partners: tuple[int, ...]
    """For each of the candidate's layers the number of the base's layer that it was compared with."""
    inherited: Inherited
    """The share of hidden units that are inherited."""
    order: UnitOrder | None
    """None where there is nothing to permute."""
    tests: int = 1
    """Number of tests of the same claim for which p is corrected (Bonferroni)."""
    kept: float = 1.0
    """The least share of the units of a layer that was looked at; less than 1 only where it has very many experts."""
    remains: float = 1.0
    """Size of what the candidate's units write together, as a share of its size if they had nothing in common.

    Near one for models that were trained; near zero where most units stand beside others that undo them."""
    searched: bool | None = True
    """Whether all coordinates were tried: False where a fit was left out, None where one was not possible."""
    heads: Inherited | None = None
    """The same of heads; None where too few units are inherited to ask, and where no heads are compared."""

    @property
    def p_value(self) -> float | None:
        """The p-value of the exact test, corrected for all tests of the claim; None where there is none."""
        return None if self.order is None else min(1.0, self.tests * self.order.p_value)

    @property
    def at_chance(self) -> bool:
        """Whether nothing points to a relation: no more units than independent models have in common, in any order."""
        ordered = self.order is not None and self.order.p_value <= IN_ORDER
        return self.inherited.share <= LITTLE * self.kept and not ordered and self.remains >= CANCELLED

    @property
    def least(self) -> float:
        """A lower bound on the share of all layers that is inherited, whatever those hold that were not read (99 %).

        It is that of hidden units or of heads, the smaller one.
        """
        return min(self._least(each) for each in (self.inherited, self.heads) if each is not None)

    def _least(self, inherited: Inherited) -> float:
        read = len(inherited.by_layer)
        depth = read + self.depth - len(self.layers[1])
        if read == depth:
            return inherited.least
        shares = inherited.by_layer[list(inherited.layers)]
        if not len(shares):
            return 0.0
        bound = interim.at_least(len(shares), read, depth) / depth
        return bound * max(0.0, float(shares.mean()) - inherited.error)


@dataclass(frozen=True)
class Test:
    """Settings of the test of the order of units, and of drawing units."""

    first: int
    """Permutations that are drawn at first."""
    seed: int
    tests: int = 1
    permuted: int = MOST_UNITS
    """Units of a layer that are permuted at most."""


def compare_units(base: Layers, candidate: Layers, depth: int, frame: Frame, test: Test) -> Framed:
    """Return what two models show unit by unit, given the layers of each that were read, by their numbers."""
    numbers = tuple(sorted(base)), tuple(sorted(candidate))
    bases, others = [base[number] for number in numbers[0]], [candidate[number] for number in numbers[1]]
    heavy = [_heaviest(rows, HEAVIEST) for rows in others]
    alike = np.array(
        [[_alike(mine, other) for other in heavy] for mine in (_heaviest(rows, OF_BASE) for rows in bases)]
    )
    rows, columns = assign(alike)
    pairs = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    partners = in_order(alike).tolist()
    weights = np.full(len(others), 1 / max(len(others), 1))
    return Framed(
        frame,
        numbers,
        depth,
        tuple(numbers[0][partner] for partner in partners),
        inherited_share(bases, others, partners, weights, test.seed),
        _tested(bases, others, pairs, weights, test),
        test.tests,
        min(layer.kept for layer in (*bases, *others)),
        _remains(others),
    )


def _remains(layers: Sequence[UnitRows]) -> float:
    together = apart = 0.0
    for rows in layers:
        size = float(np.abs(rows.weight).max(initial=0.0)) or 1.0
        weight = (rows.weight / size).astype(np.float32)
        scale = 1 / max(float(weight.sum()), 1.0) ** 2  # the largest is 1, unless all are 0
        together += scale * float(np.square(rows.outer.T @ (rows.inner * weight[:, None]), dtype=np.float64).sum())
        lengths = np.vecdot(rows.outer, rows.outer) * np.vecdot(rows.inner, rows.inner)
        apart += scale * float((weight.astype(np.float64) ** 2) @ lengths)
    return float(np.sqrt(together / apart)) if apart > 0 else 1.0


def _heaviest(rows: UnitRows, most: int) -> UnitRows:
    return rows.select(np.argsort(-rows.weight, kind="stable")[:most])


def _alike(base: UnitRows, candidate: UnitRows) -> float:
    """Return how well the units of a layer that write most match those of another layer, whatever their order."""
    total = candidate.weight.sum()
    best = likeness(candidate, base).max(axis=1, initial=0.0).astype(np.float64)
    return float(best @ candidate.weight / total) if total > 0 else 0.0


def _tested(
    bases: Sequence[UnitRows], others: Sequence[UnitRows], pairs: Mapping[int, int], weights: Vector, test: Test
) -> UnitOrder | None:
    groups = copies(others)
    layers = [
        expert
        for column, partner in sorted(pairs.items())
        for expert in by_expert(
            bases[partner], others[column], groups[column], float(weights[column]), test.seed, test.permuted
        )
    ]
    return order_test(layers, test.first, test.seed)
