"""Expected activity of hidden units and experts if the input of a branch is standard normal, as integrals over R.

Means are taken over z ~ N(0, 1). They are off by 1e-6 of their scale at most, and exactly zero for a unit that never
leaves the range in which one of the floating-point types models run in gives a constant.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_lineage.architecture.activity.activations import ACTIVATIONS, swish
from hf_lineage.architecture.activity.curves import (
    ROOT_TAU,
    Activation,
    Curve,
    Function,
    Polynomial,
    Vector,
    clamped,
    density_at,
    share_below,
)
from hf_lineage.architecture.activity.router import SIGMOID, Corrected, Scores
from hf_lineage.architecture.registry import setting
from hf_lineage.errors import NothingToCompare

NARROW = 1 / 40
"""Fraction of the longest piece between two cuts: up to this spread, nodes are placed around each unit's centre."""
REACH = 6.0
"""Spreads around the centre that are integrated over; the probability outside of them is 2e-9."""
FOLLOWING, STAYING = 32, 80
"""Nodes between two cuts: placed around each unit's centre, and fixed ones."""
TINIEST = 1e-300


@dataclass(frozen=True)
class Clamped:
    """Gate x sigmoid(factor x) with clamped input; the value it multiplies is clamped to +-limit, plus offset."""

    limit: float
    factor: float
    offset: float


CLAMPED = {"clamped_silu": Clamped(10.0, 1.0, 0.0), "clamped_quick_gelu": Clamped(7.0, 1.702, 1.0)}
"""Activation of the registry -> its values where `config.json` gives no others."""
LIMIT, FACTOR = "swiglu_limit", "swiglu_alpha"


def activation(names: tuple[str, ...], config: Mapping[str, Any]) -> Activation | None:
    """Return the activation that a matrix set names, None where it names none.

    Each name is that of an activation or a key of `config.json`, dotted for one inside another; the first that
    applies counts. Raise NothingToCompare where `config.json` names no activation, or an unknown one.
    """
    for name in names:
        if name in ACTIVATIONS:
            return ACTIVATIONS[name]
        if name in CLAMPED:
            return _limited(name, config)
        if (value := setting(config, name)) is not None:
            return _configured(name, value)
    if not names:
        return None
    raise NothingToCompare(f"config.json names no activation under {' or '.join(names)}, so units cannot be weighted")


def _configured(key: str, value: Any) -> Activation:
    if isinstance(value, str) and value in ACTIVATIONS:
        return ACTIVATIONS[value]
    raise NothingToCompare(f"config.json says {key}: {str(value)[:80]!r}, an activation that hf-lineage does not know")


def _limited(name: str, config: Mapping[str, Any]) -> Activation:
    usual = CLAMPED[name]
    limit = _number(config, LIMIT, usual.limit)
    factor = _number(config, FACTOR, usual.factor) if usual.offset else usual.factor
    return _clamped_swish(name.removeprefix("clamped_"), factor, limit, usual.offset)


@functools.lru_cache(maxsize=64)
def _clamped_swish(name: str, factor: float, limit: float, offset: float) -> Activation:
    """Return one object for one setting: its curves hold functions, which are equal only to themselves."""
    return clamped(swish(name, factor), limit, offset)


def _number(config: Mapping[str, Any], key: str, usual: float) -> float:
    """The number under a key of `config.json` or of its `text_config`; NothingToCompare for a value out of range."""
    within = (setting(config, name) for name in (key, f"text_config.{key}"))
    value = next((value for value in within if value is not None), usual)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.01 <= value <= 1e4:
        raise NothingToCompare(f"config.json says {key}: {str(value)[:80]!r}, not a number from 0.01 to 10000")
    return float(value)


def mean_value(activation: Activation, spread: Vector, centre: Vector) -> Vector:
    """Return E[act(spread z + centre)] for every unit: the mean factor of a gate."""
    return _mean(activation.curve, spread, centre)


def mean_slope(activation: Activation, spread: Vector, centre: Vector) -> Vector:
    """Return E[act'(spread z + centre)] for every unit: the mean slope of a unit without a gate."""
    return _mean(activation.tangent, spread, centre)


def mean_steepness(activation: Activation, spread: Vector, centre: Vector) -> Vector:
    """Return E|act'(spread z + centre)| for every unit."""
    return _mean(activation.steepness, spread, centre)


def share_inside(activation: Activation, spread: Vector, centre: Vector) -> Vector:
    """Return for every unit the probability that the value which its gate multiplies is within the limit."""
    if not np.isfinite(activation.limit):
        return np.where(np.isfinite(spread) & np.isfinite(centre), 1.0, np.nan)
    ends = (-activation.limit, activation.limit)
    return _mean(Curve(np.ones_like, ends, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), spread, centre)


def _mean(curve: Curve, spread: Vector, centre: Vector) -> Vector:
    """E[curve(spread z + centre)], elementwise; NaN where spread or centre is not finite."""
    spread, centre = np.broadcast_arrays(np.abs(np.asarray(spread, np.float64)), np.asarray(centre, np.float64))
    mean = np.full(spread.shape, np.nan)
    finite = np.isfinite(spread) & np.isfinite(centre)
    narrow = spread <= NARROW * float(np.diff(curve.cuts).max(initial=0))
    for chosen, body in ((finite & narrow, _following), (finite & ~narrow, _staying)):
        s, c = spread[chosen], centre[chosen]
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            mean[chosen] = _tails(curve, s, c) + body(curve, s, c)
    return mean


def _tails(curve: Curve, spread: Vector, centre: Vector) -> Vector:
    """The part of the mean that lies outside the cuts, in closed form."""
    below = _above(curve.left, -1.0, spread, centre, curve.cuts[0])
    return below + _above(curve.right, 1.0, spread, centre, curve.cuts[-1])


def _above(tail: Polynomial, sign: float, spread: Vector, centre: Vector, cut: float) -> Vector:
    """E[polynomial; sign (x - cut) > 0]."""
    total = np.zeros_like(centre)
    if not any(tail):
        return total
    away = sign * _scaled(centre - cut, spread)
    share, density = share_below(away), density_at(away)
    if tail[0]:
        total = total + tail[0] * share
    if tail[1]:
        total = total + tail[1] * (centre * share + sign * spread * density)
    if tail[2]:
        size = np.maximum(np.maximum(spread, np.abs(centre)), TINIEST)
        s, c = spread / size, centre / size  # the square of what is huge may be infinite, yet not NaN
        square = (s**2 + c**2) * share + np.where(density > 0, sign * (c + cut / size) * s * density, 0.0)
        total = total + tail[2] * (size * (size * square))
    return total


def _scaled(distance: Vector, spread: Vector) -> Vector:
    """A distance in spreads, infinite without spread, zero where there is no distance."""
    return distance / np.maximum(spread, TINIEST)


@functools.cache
def _nodes(count: int) -> tuple[Vector, Vector]:
    """Gauss-Legendre nodes and weights between -1 and 1."""
    return np.polynomial.legendre.leggauss(count)


def _following(curve: Curve, spread: Vector, centre: Vector) -> Vector:
    """The part between the cuts with nodes around each centre: for spreads over which the curve is nearly linear."""
    total = np.zeros_like(centre)
    for low, high in zip(curve.cuts, curve.cuts[1:], strict=False):
        first = np.clip(_scaled(low - centre, spread), -REACH, REACH)
        last = np.clip(_scaled(high - centre, spread), -REACH, REACH)
        near = np.flatnonzero(first < last)
        total[near] += _between(curve.inner, (low, high), (first[near], last[near]), spread[near], centre[near])
    return total


def _between(
    inner: Function, ends: tuple[float, float], reach: tuple[Vector, Vector], spread: Vector, centre: Vector
) -> Vector:
    middle, half = (reach[0] + reach[1]) / 2, (reach[1] - reach[0]) / 2
    nodes, weights = _nodes(FOLLOWING)
    z = middle + half * nodes[:, None]
    values: Vector = inner(np.clip(centre + spread * z, *ends)) * np.exp(-0.5 * z * z)
    return weights @ values * half / ROOT_TAU


def _staying(curve: Curve, spread: Vector, centre: Vector) -> Vector:
    """The part between the cuts with fixed nodes: for spreads that cover a large part of the curve."""
    total = np.zeros_like(centre)
    for low, high in zip(curve.cuts, curve.cuts[1:], strict=False):
        middle, half = (low + high) / 2, (high - low) / 2
        nodes, weights = _nodes(STAYING)
        places = middle + half * nodes
        z = (places[:, None] - centre) / spread
        total += half * weights * curve.inner(places) @ np.exp(-0.5 * z * z)
    return total / spread / ROOT_TAU


def routed(
    spread: Vector, centre: Vector, chosen: int, correction: Vector | None = None, scores: Scores = SIGMOID
) -> Vector:
    """Return the probability that each expert is among the `chosen`, for logits N(centre, spread²) taken alone.

    It is P(logit > t) with t such that the probabilities add up to `chosen`. With a correction the experts are chosen
    by their scores, such as sigmoid(logit), + correction; it is 1 where a score depends on all logits of a token. An
    expert whose bias is minus infinity is never chosen; NaN stays NaN.
    """
    spread, centre = np.broadcast_arrays(np.asarray(spread, np.float64), np.asarray(centre, np.float64))
    added = np.zeros_like(centre) if correction is None else np.asarray(correction, np.float64)
    if not (np.isfinite(spread).all() and (centre < np.inf).all() and (added < np.inf).all()):
        return np.full(centre.shape, np.nan)
    alive = np.isfinite(centre) & np.isfinite(added)
    share = np.zeros(centre.shape)
    if alive.sum() <= chosen or not (correction is None or scores.alone):
        share[alive] = 1.0
        return share
    corrected = None if correction is None else Corrected(added[alive], scores)
    share[alive] = _share(spread[alive], centre[alive], chosen, corrected)
    return share


def _share(spread: Vector, centre: Vector, chosen: int, corrected: Corrected | None) -> Vector:
    """The shares at the threshold for which they add up to `chosen`, by bisection down to neighbouring numbers."""
    least = 1e-9 * max(1.0, float(np.abs(centre[np.isfinite(centre)]).max(initial=0)))
    spread = np.maximum(spread, least)  # equal experts without spread get equal probabilities
    ends = (centre - 40 * spread, centre + 40 * spread) if corrected is None else corrected.ends(spread, centre)
    low, high = float(np.min(ends[0])), float(np.max(ends[1]))
    while low < (middle := low / 2 + high / 2) < high:
        above = _over(middle, spread, centre, corrected)
        low, high = (middle, high) if above.sum() > chosen else (low, middle)
    return _over(low, spread, centre, corrected)


def _over(threshold: float, spread: Vector, centre: Vector, corrected: Corrected | None) -> Vector:
    """How probably each expert's score is over a threshold."""
    bound = threshold if corrected is None else corrected.scores.logit(threshold - corrected.added)
    return share_below((centre - bound) / spread)
