"""Shares: how much of what each layer of a candidate writes is inherited, in coordinates that both models share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hf_lineage.evidence.units.inherited import ALIKE, ERROR, NOTHING, Drawn, Inherited, draw, to_draw
from hf_lineage.signature import Vector, random_stream
from hf_lineage.signature.units import HeadProducts, UnitRows, likeness

HALF, MORE = 0.5, 8
"""MORE times as many units are looked up if the share of the first units is above HALF, but its interval is not. Both
intervals are above one half by chance with a probability of 1 % together."""


def inherited_share(
    bases: Sequence[UnitRows], others: Sequence[UnitRows], partners: Sequence[int], weights: Vector, seed: int
) -> Inherited:
    """Return the share by a few units, or by more if these do not decide whether it is more than one half."""
    count = to_draw(len(others))
    few = _looked_up(bases, others, partners, weights, f"units in a frame {seed}", count)
    if not few.interval[0] <= HALF < few.share:
        return few
    return _looked_up(bases, others, partners, weights, f"more units in a frame {seed}", MORE * count)


def inherited_heads(layers: Iterable[tuple[HeadProducts | None, HeadProducts]]) -> Inherited:
    """Return the share of what the heads of each layer write that a head of the base computes as well."""
    shares = np.array([0.0 if base is None else _heads(base, candidate) for base, candidate in layers])
    return Inherited(shares, np.full(len(shares), 1 / max(len(shares), 1)), error=0.0)


def _heads(base: HeadProducts, candidate: HeadProducts) -> float:
    found = (candidate.directions @ base.directions.T).max(axis=1) > ALIKE
    total = candidate.weight.sum()
    return float(candidate.weight @ found / total) if total > 0 else 0.0


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
    """Return the units of one layer that were looked up, what is left of them after others, and one over their number.

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
    """Return what is left of the copies of some units of the base after their opposites: 1 if at least half is.

    A copy beside its opposite writes nothing. Units that undo a copy without being opposites of it need not be counted:
    at a cosine of -c they write 1 / c of what it writes. So the copies are less than half of all that is written.
    Many small changes that undo a whole layer, as training against a score makes them, leave its units inherited.
    """
    alike = likeness(candidate, partners).astype(np.float64)
    copied = float(candidate.weight @ np.where(alike > ALIKE, alike, 0.0).sum(axis=1))
    undone = float(candidate.weight @ np.where(alike < -ALIKE, alike, 0.0).sum(axis=1))
    return min(1.0, max(0.0, 2 * (copied + undone) / copied)) if copied > 0 else 0.0
