"""Procrustes frame: how the residual coordinates of two models belong together, from their hidden units alone.

An orthogonal change Q of the residual coordinates turns everything that a unit reads, a, and writes, b. What forms of
all units, such as A = Σ n a aᵀ or M = Σ n b aᵀ, make of them, aᵀ A a or aᵀ M b, stays as it is, whatever the order of
the units, so that these numbers describe a unit in any coordinates. Units of two models with like descriptions are
pairs, many of them wrong. Pairs that are right agree with each other: the strongest direction v of

    G_ij = (a_i · a_j)(a'_i · a'_j) + (b_i · b_j)(b'_i · b'_j)

weighs them and finds their signs, for (a, b) and (-a, -b) are one unit (spectral matching: Leordeanu and Hebert 2005).
Q is the polar factor of Σ v (a a'ᵀ + b b'ᵀ), the solution of the orthogonal Procrustes problem (Schönemann 1966);
pairs are then made anew with it, until no more are found. For models of unlike widths Q is a partial isometry.
What is seen through it at last is levelled, and has to be brought to length 1 again.

Nothing in it depends on the order in which units are stored, so that a test of their order remains exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.recipe import Array, Vector, signs
from hf_lineage.signature.token_frame import seen_through
from hf_lineage.signature.unit_descriptions import described
from hf_lineage.signature.unit_rows import UnitRows

MOST_UNITS, MOST_NUMBERS = 2**14, 2**26
"""Units of a model that are matched at most, and coordinates of them: those that write most of every layer."""
LIVE = 1e-3
"""A unit that weighs less than this share of the mean is left out."""
DIRECTIONS, SPARE, POWERS = 512, 32, 8
"""Coordinates in which units are matched; of wider streams those in which the units of the model lie most, by subspace
iteration with some more directions (Halko, Martinsson and Tropp 2011)."""
MUTUAL, STEPS, ROUNDS, FEWEST_ROUNDS, GAIN = 8, 50, 8, 3, 0.005
"""Units of a layer at least; steps towards the strongest direction; rounds of matching, and what one has to add."""
ALIKE, COPIES = 0.5, 0.95
"""Units count as found, and as copies, if the cosines of what they read and write multiply to more."""
OVER = 4
"""Units at least, as a multiple of the coordinates: to fewer, coordinates can be fitted by chance."""
LEAST = 1e-6
"""A direction in which matched units lie less, relative to the largest, is rounding."""
TILE = 2**10
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """Hidden units of a model in one order, layer after layer."""

    inner: Array
    """(u, d): what each reads, of length 1."""
    outer: Array
    """(u, d): what each writes, of length 1."""
    weight: Array
    """(u,): the square root of what it adds, as a share of all."""
    layers: tuple[slice, ...]
    """Which of them belong to which layer."""

    def of(self, units: NDArray[np.int64] | slice) -> tuple[Array, Array]:
        """Return what some units read and write."""
        return self.inner[units], self.outer[units]


def most_of_a_layer(width: int, layers: int) -> int:
    """Return how many units of each of so many layers are matched at most."""
    return min(MOST_UNITS, MOST_NUMBERS // width) // max(layers, 1)


def heaviest(rows: UnitRows, layers: int) -> UnitRows:
    """Return the units of a layer that are matched, given how many layers there are: all, or those that write most."""
    most = most_of_a_layer(rows.inner.shape[1], layers)
    return rows.of(np.argsort(-rows.weight, kind="stable")[:most]) if len(rows.weight) > most else rows


def pooled(layers: Sequence[UnitRows]) -> Units:
    """Return the units of some layers as one; those that write next to nothing are left out."""
    added = [layer.weight * (layer.writes / max(float(layer.weight.sum()), 1e-300)) for layer in layers]
    roots = [np.sqrt(layer / max(float(sum(map(np.sum, added))), 1e-300)) for layer in added]
    mean = sum(map(np.sum, roots)) / max(sum(map(len, roots)), 1)
    live = [np.flatnonzero(root > LIVE * mean) for root in roots]
    ends = np.cumsum([0, *map(len, live)]).tolist()
    inner, outer, weight = (
        np.concatenate([side[units] for side, units in zip(sides, live, strict=True)])
        for sides in ([layer.inner for layer in layers], [layer.outer for layer in layers], roots)
    )
    return Units(inner, outer, weight.astype(np.float32), tuple(slice(*both) for both in pairwise(ends)))


def between(base: Units, candidate: Units) -> tuple[Array, Array]:
    """Return what the units of the base and of the candidate are multiplied with, (s, d) each, to be seen alike.

    Raise NothingToCompare where there are too few units for the width of their streams.
    """
    widest = max(base.inner.shape[1], candidate.inner.shape[1])
    if min(len(base.weight), len(candidate.weight)) < max(OVER * widest, MUTUAL):
        raise NothingToCompare(f"too few hidden units to find how coordinates belong together in streams of {widest}")
    narrow = _narrowed(base), _narrowed(candidate)
    if min(map(_distinct, narrow)) < OVER * widest:
        raise NothingToCompare(f"too few unlike hidden units to fit the coordinates of streams of {widest} by them")
    first, second = _first_pairs(*narrow)
    weights = _agreement(*narrow, first, second)
    for pairs in _rounds(*narrow, _polar(_product(*narrow, first, second, weights))):
        first, second, weights = pairs
    if len(first) < widest:
        raise NothingToCompare(f"only {len(first)} hidden units find each other, in streams of {widest} coordinates")
    seen = _levelled(seen_through(base.inner.shape[1]), base)
    turn = _polar(_product(base, candidate, first, second, weights))
    return seen, (seen @ turn).astype(np.float32)


def _levelled(through: Array, base: Units) -> Array:
    """A matrix (s, d) after which no direction counts more than the mean one, those above the mean counted as the mean.

    Where many units of a model read or write much the same, as in some models of GPT-2's architecture, one direction
    laid on that of another model would make all of them alike.
    """
    sizes, directions = _directions(base)
    total, width = 2 * float(base.weight.sum()), base.inner.shape[1]
    mean = (total - float(np.maximum(sizes - total / width, 0).sum())) / width
    capped = np.minimum(1.0, np.sqrt(mean / np.maximum(sizes, 1e-30)))
    levelled: Array = through + ((through @ directions) * (capped - 1)) @ directions.T
    return levelled.astype(np.float32)


def _distinct(units: Units) -> float:
    """About how many units there are, copies of each other, as experts of one dense layer are, counted as one."""
    copies = np.zeros(len(units.weight))
    least = COPIES * np.vecdot(units.inner, units.inner) * np.vecdot(units.outer, units.outer)
    for start in range(0, len(copies), TILE):
        alike = _cosines(units, units.inner, units.outer, slice(start, start + TILE))
        copies += (alike >= least[:, None]).sum(axis=1)
    return float((1 / np.maximum(copies, 1)).sum())


def _narrowed(units: Units) -> Units:
    """The units in those directions of their stream in which they lie most."""
    if units.inner.shape[1] <= DIRECTIONS:
        return units
    _, directions = _directions(units)
    return Units(units.inner @ directions, units.outer @ directions, units.weight, units.layers)


def _directions(units: Units) -> tuple[Vector, Array]:
    """Directions of a stream in which units lie most, at most DIRECTIONS, (d, n), and how much lies in each."""
    width = units.inner.shape[1]
    root = np.sqrt(units.weight)[:, None].astype(np.float32)
    square = sum(rows.T @ rows for rows in (units.inner * root, units.outer * root))
    if width <= DIRECTIONS:
        return np.linalg.eigh(square)
    directions = signs("directions of a stream", (width, DIRECTIONS + SPARE))
    for _ in range(POWERS):
        directions = np.linalg.qr(square @ directions)[0]
    sizes, within = np.linalg.eigh(directions.T @ square @ directions)
    return sizes[-DIRECTIONS:], directions @ within[:, -DIRECTIONS:]


def _first_pairs(base: Units, candidate: Units) -> tuple[Numbers, Numbers]:
    """Units of like descriptions, (n,) each: among all, and layer by layer where both have as many layers."""
    parts = [(slice(0, len(base.weight)), slice(0, len(candidate.weight)))]
    if 1 < len(base.layers) == len(candidate.layers):
        parts += zip(base.layers, candidate.layers, strict=True)
    nearest = [
        tuple(place + part.start for place, part in zip(_alike(base, candidate, *both), both, strict=True))
        for both in parts
        if min(part.stop - part.start for part in both) >= MUTUAL
    ]
    return np.concatenate([pair[0] for pair in nearest]), np.concatenate([pair[1] for pair in nearest])


def _alike(base: Units, candidate: Units, of_base: slice, of_candidate: slice) -> tuple[Numbers, Numbers]:
    """Units that are nearest to each other by their descriptions."""
    one, other = (
        described(*units.of(part), units.weight[part]) for units, part in ((base, of_base), (candidate, of_candidate))
    )
    halves = [(numbers**2).sum(axis=1) / 2 for numbers in (one, other)]
    return _Best(lambda tile: one @ other[tile].T - halves[0][:, None] - halves[1][tile], len(one), len(other)).mutual


def _agreement(base: Units, candidate: Units, first: Numbers, second: Numbers) -> Array:
    """How well each pair agrees with all others, with its sign: the strongest direction of G, never formed."""
    (inner, outer), (other_inner, other_outer) = base.of(first), candidate.of(second)
    weights = np.ones(len(first), dtype=np.float32)
    for _ in range(STEPS):
        product = _product(base, candidate, first, second, weights)
        weights = np.vecdot(inner @ product, other_inner) + np.vecdot(outer @ product, other_outer) - 2 * weights
        weights /= np.linalg.norm(weights) + 1e-30
    return weights


def _product(base: Units, candidate: Units, first: Numbers, second: Numbers, weights: Array) -> Array:
    """Σ v (a a'ᵀ + b b'ᵀ) over pairs."""
    (inner, outer), (other_inner, other_outer) = base.of(first), candidate.of(second)
    column = weights[:, None]
    return np.asarray((inner * column).T @ other_inner + (outer * column).T @ other_outer, np.float32)


def _rounds(base: Units, candidate: Units, turn: Array) -> Iterator[tuple[Numbers, Numbers, Array]]:
    """Yield the units that find each other after a turn of the candidate's stream, and what each pair counts."""
    share = 0.0
    for number in range(ROUNDS):
        inner, outer = candidate.inner @ turn.T, candidate.outer @ turn.T
        best = _Best(partial(_cosines, base, inner, outer), len(base.weight), len(candidate.weight))
        first, second = best.mutual
        same_sign = np.sign(np.vecdot(base.inner[first], inner[second]))
        weights: Array = (np.maximum(best.of_other[second], 0) * same_sign).astype(np.float32)
        yield first, second, weights
        alike = float(candidate.weight[best.of_other > ALIKE].sum() / candidate.weight.sum())
        if number >= FEWEST_ROUNDS and alike - share < GAIN:
            return
        share, turn = alike, _polar(_product(base, candidate, first, second, weights))


def _cosines(base: Units, inner: Array, outer: Array, tile: slice) -> Array:
    """What units of the base and some of the other model have in common: (u, t)."""
    return (base.inner @ inner[tile].T) * (base.outer @ outer[tile].T)


def _polar(product: Array) -> Array:
    """The polar factor (d, d') of a matrix; directions in which there is nothing are left out."""
    if product.shape[0] < product.shape[1]:
        return _polar(product.T).T
    scaled = product.astype(np.float64) / max(float(np.abs(product).max(initial=0.0)), 1e-300)
    squares, directions = np.linalg.eigh(scaled.T @ scaled)
    kept = squares > LEAST**2 * squares[-1]
    directions = directions[:, kept]
    polar: Array = (scaled @ (directions / np.sqrt(squares[kept])) @ directions.T).astype(np.float32)
    return polar


class _Best:
    """The best of every row and of every column of a large matrix that is made some columns at a time."""

    def __init__(self, columns: Callable[[slice], Array], rows: int, count: int) -> None:
        best, self.of_other = np.full(rows, -np.inf, np.float32), np.empty(count, np.float32)
        column = np.zeros(rows, np.int64)
        for start in range(0, count, TILE):
            tile = slice(start, min(start + TILE, count))
            values = columns(tile)
            nearest, self.of_other[tile] = values.argmax(axis=1), values.max(axis=0)
            better = (highest := values[np.arange(rows), nearest]) > best
            best[better], column[better] = highest[better], nearest[better] + start
        mutual = np.flatnonzero(best == self.of_other[column])
        self.mutual = mutual, column[mutual]
