"""Unit comparison: what two models show unit by unit, in coordinates that both share.

The residual streams of the two may have been rotated, reordered or changed in width.

It gives two kinds of evidence, which reports never mix up. The order of units is tested exactly. The share of inherited
units also finds models whose units were put into another order. But independent models of one vocabulary have the
geometry of its tokens in common, so the share is compared with what was measured between such models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.evidence.paths import assign, in_order
from hf_lineage.evidence.units.experts import by_expert
from hf_lineage.evidence.units.inherited import ALIKE, ERROR, NOTHING, Drawn, Inherited, draw, to_draw
from hf_lineage.evidence.units.order import UnitOrder, copies, order_test, sorted_by_size
from hf_lineage.signature import Vector, beside_base, random_stream, writing
from hf_lineage.signature.units import Layers, UnitRows, likeness

TOKEN: str = "token"  # noqa: S105 - a frame, not a secret
RESIDUAL: str = "residual"
PROCRUSTES: str = "procrustes"
"""The names of frames: the rows of shared tokens, the coordinates of the residual stream, and those in which hidden
units fit those of the base best."""
HEAVIEST, OF_BASE = 64, 1024
"""By so many units of a layer that write most, and as many of the base, layers are paired."""
HALF, MORE = 0.5, 8
"""So many times as many units are looked up where the share of the first is above one half, and its interval is not.
Both intervals are above one half by chance with a probability of 1 % together."""
SORTED = "the hidden units of both models are sorted by size, so that independent ones would stand in a like order"


@dataclass(frozen=True)
class Frame:
    """The coordinates in which two models are seen unit by unit."""

    name: str
    """TOKEN, RESIDUAL or PROCRUSTES."""
    tokens: int = 0
    """How many tokens; 0 where none are needed."""
    by: str = ""
    """By what tokens are known to be the same."""


@dataclass(frozen=True)
class Framed:
    """What two models show unit by unit."""

    frame: Frame
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of the layers that were read, of the base and of the candidate."""
    depth: int
    """How many layers the candidate has with hidden units."""
    partners: tuple[int, ...]
    """For each of the candidate's layers the number of the base's layer that it was compared with."""
    inherited: Inherited
    order: UnitOrder | None
    """None where there is nothing to permute."""
    objection: str = ""
    """Why the order of units proves nothing; empty where the test is exact."""
    tests: int = 1
    """How many tests of the same claim p is corrected for (Bonferroni)."""
    kept: float = 1.0
    """The least share of the units of a layer that was looked at; less than 1 only where it has very many experts."""
    remains: float = 1.0
    """How large what the candidate's units write together is, as a share of what it were if they had nothing in common.

    Near one for models that were trained; near zero where most units stand beside others that undo them."""
    searched: bool = True
    """Whether no coordinates are left in which the units were not seen: False where a fit to them was left out."""

    @property
    def p_value(self) -> float | None:
        """The p-value of the exact test, corrected for all tests of the claim; None where there is none."""
        return None if self.order is None or self.objection else min(1.0, self.tests * self.order.p_value)

    @property
    def least(self) -> float:
        """A lower bound on the share of all layers that is inherited, whatever those hold that were not read (99 %)."""
        inherited, read = self.inherited, len(self.layers[1])
        if read == self.depth:
            return inherited.interval[0]
        shares = inherited.by_layer[list(inherited.layers)]
        if not len(shares):
            return 0.0
        bound = interim.at_least(len(shares), read, self.depth) / self.depth
        return bound * max(0.0, float(shares.mean()) - inherited.error)


@dataclass(frozen=True)
class Test:
    """How the order of units is tested, and units are drawn."""

    first: int
    """Permutations that are drawn at first."""
    seed: int
    unit_seed: int
    tests: int = 1


def compare_units(base: Layers, candidate: Layers, depth: int, frame: Frame, test: Test) -> Framed:
    """Return what two models show unit by unit, given the layers of each that were read, by their numbers."""
    numbers = tuple(sorted(base)), tuple(sorted(candidate))
    bases, others = [base[number] for number in numbers[0]], [candidate[number] for number in numbers[1]]
    alike = np.array([[_alike(mine, other) for other in others] for mine in bases])
    rows, columns = assign(alike)
    pairs = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    partners = in_order(alike).tolist()
    weights = _weights(bases, others)
    return Framed(
        frame,
        numbers,
        depth,
        tuple(numbers[0][partner] for partner in partners),
        _inherited(bases, others, partners, weights, test.unit_seed),
        _tested(bases, others, pairs, weights, test),
        SORTED if sorted_by_size(bases) and sorted_by_size(others) else "",
        test.tests,
        min(layer.kept for layer in (*bases, *others)),
        _remains(others),
    )


def _weights(bases: Sequence[UnitRows], layers: Sequence[UnitRows]) -> Vector:
    """What each layer of the candidate counts: the same for all that write into the stream."""
    base_joins, joins = (np.array([layer.joins for layer in each]) for each in (bases, layers))
    writes = np.array([layer.writes for layer in layers])
    counted = writing(writes, beside_base(joins, base_joins), writes > 0)
    weights: Vector = counted / max(int(counted.sum()), 1)
    return weights


def _remains(layers: Sequence[UnitRows]) -> float:
    together = apart = 0.0
    for rows in layers:
        size = float(np.abs(rows.weight).max(initial=0.0)) or 1.0
        weight = (rows.weight / size).astype(np.float32)
        scale = (rows.writes / max(float(weight.sum()), 1e-300)) ** 2
        together += scale * float(np.square(rows.outer.T @ (rows.inner * weight[:, None]), dtype=np.float64).sum())
        lengths = np.vecdot(rows.outer, rows.outer) * np.vecdot(rows.inner, rows.inner)
        apart += scale * float((weight.astype(np.float64) ** 2) @ lengths)
    return float(np.sqrt(together / apart)) if apart > 0 else 1.0


def _alike(base: UnitRows, candidate: UnitRows) -> float:
    """How well the units of a layer that write most are found in another layer, whatever the order of its units."""
    heavy, base_heavy = (
        rows.select(np.argsort(-rows.weight, kind="stable")[:most])
        for rows, most in ((candidate, HEAVIEST), (base, OF_BASE))
    )
    total = heavy.weight.sum()
    best = likeness(heavy, base_heavy).max(axis=1, initial=0.0).astype(np.float64)
    return float(best @ heavy.weight / total) if total > 0 else 0.0


def _tested(
    bases: Sequence[UnitRows], others: Sequence[UnitRows], pairs: Mapping[int, int], weights: Vector, test: Test
) -> UnitOrder | None:
    groups = copies(others)
    layers = [
        expert
        for column, partner in sorted(pairs.items())
        for expert in by_expert(bases[partner], others[column], groups[column], float(weights[column]), test.unit_seed)
    ]
    return order_test(layers, test.first, test.seed)


def _inherited(
    bases: Sequence[UnitRows], others: Sequence[UnitRows], partners: Sequence[int], weights: Vector, seed: int
) -> Inherited:
    """The share by a few units, or by more where these leave it open whether it is more than one half."""
    count = to_draw(len(others))
    few = _looked_up(bases, others, partners, weights, f"units in a frame {seed}", count)
    if not few.interval[0] <= HALF < few.share:
        return few
    return _looked_up(bases, others, partners, weights, f"more units in a frame {seed}", MORE * count)


def _looked_up(
    bases: Sequence[UnitRows],
    others: Sequence[UnitRows],
    partners: Sequence[int],
    weights: Vector,
    purpose: str,
    count: int,
) -> Inherited:
    drawn, shares, errors = [], [], []
    for number, (rows, partner) in enumerate(zip(others, partners, strict=True)):
        layer, left, error = _layer(bases[partner], rows, count, random_stream(f"{purpose} {number}"))
        drawn.append(layer)
        shares.append(left * layer.share)
        errors.append(error)
    error = float(np.sqrt(np.log(2 / ERROR) / 2 * (weights**2 * np.array(errors)).sum()))
    return Inherited(np.array(shares), weights, error, tuple(drawn))


def _layer(base: UnitRows, candidate: UnitRows, count: int, stream: np.random.Philox) -> tuple[Drawn, float, float]:
    """The units of one layer that were looked up, what is left of them after others, and one over their number.

    The last is 0 if they are all units of the layer.
    """
    live = np.flatnonzero(base.weight > 0)
    if not candidate.weight.sum() > 0 or not len(live):
        return NOTHING, 0.0, 0.0
    chosen, counts, error = draw(candidate.weight, count, stream)
    alike = likeness(candidate.select(chosen), base.select(live))
    inherited = alike.max(axis=1) > ALIKE
    partners = np.unique(live[alike.argmax(axis=1)[inherited]])
    if candidate.kept < 1:  # they are a sample themselves: one over its effective number
        error += float(candidate.weight @ candidate.weight / candidate.weight.sum() ** 2)
    return Drawn(chosen, counts, inherited), _left(base.select(partners), candidate), error


def _left(partners: UnitRows, candidate: UnitRows) -> float:
    """What is left of the copies of some units of the base after their opposites: 1 if at least half is.

    A copy beside its opposite writes nothing. Units that undo a copy without being opposites of it need not be counted:
    at a cosine of -c they write 1 / c of what it writes, so that the copies are less than half of all that is written.
    Many small changes that undo a whole layer, as training against a score makes them, leave its units inherited.
    """
    alike = likeness(candidate, partners).astype(np.float64)
    copied = float(candidate.weight @ np.where(alike > ALIKE, alike, 0.0).sum(axis=1))
    undone = float(candidate.weight @ np.where(alike < -ALIKE, alike, 0.0).sum(axis=1))
    return min(1.0, max(0.0, 2 * (copied + undone) / copied)) if copied > 0 else 0.0
