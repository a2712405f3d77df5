"""Unit rows: the hidden units of some layers as rows, and which units of two models belong together.

Units with similar descriptions make pairs, many of which are wrong. Right pairs agree with each other: the strongest
direction v of G_ij = (a_i·a_j)(a'_i·a'_j) + (b_i·b_j)(b'_i·b'_j) weighs them and finds their signs (Leordeanu and
Hebert 2005). The polar factor of Σ v (a a'ᵀ + b b'ᵀ), a rotation (Procrustes: Schönemann 1966), makes better ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.recipe import Array, Vector, random_stream

PATH, HEADS = "mlp", "value_output"  # the path whose hidden units are compared, and the one whose heads are
MUTUAL = 8  # the fewest units of a layer
ALIKE, COPIES = 0.5, 0.95  # units are a pair, or copies, if the product of cosines of readers and writers is larger
HARDLY = 0.01  # in wide streams a smaller share of paired units ends the search
LEAST = 1e-6  # a direction that holds a smaller part of the matched units, beside the largest one, is rounding
TILE = 2**10
Numbers = NDArray[np.int64]


class HeadProducts(NamedTuple):
    """The products of the heads of one layer."""

    directions: Array  # (n, s s): the product of the matrices of each head, of length 1
    weight: Vector  # (n,): the norm of that product in the whole stream, at most the median of the layer


@dataclass(frozen=True)
class UnitRows:
    """The hidden units of one layer, in the order in which they are stored."""

    inner: Array  # (u, s): what each unit reads, over the norm of all that it reads, also outside these coordinates
    outer: Array  # (u, s): what each unit writes, likewise
    gate: Array  # (u, s): the other reader of gated units, likewise; (u, 0) of units without a gate
    weight: Vector  # (u,): ‖w_out,u‖ ‖w_in,u‖, at most the median of the layer
    sizes: Vector  # (2, u): the norms of the readers and of the writers of the units
    experts: tuple[int, ...] = ()  # units of each expert, one after the other; empty where there are no experts
    kept_share: float = 1.0  # these units as a share of the layer's units

    def select(self, units: NDArray[np.int64] | slice) -> "UnitRows":
        """Return some of the units."""
        parts = (self.inner[units], self.outer[units], self.gate[units], self.weight[units], self.sizes[:, units])
        return UnitRows(*parts)

    @property
    def by_expert(self) -> tuple[slice, ...]:
        """The units of each expert; one slice with all units where there are no experts."""
        ends = accumulate(self.experts or (len(self.weight),), initial=0)
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    @property
    def finite(self) -> bool:
        """Whether all numbers of the units are finite."""
        numbers = (self.inner, self.outer, self.gate, self.weight, self.sizes)
        return all(bool(np.isfinite(part).all()) for part in numbers)


Layers = Mapping[int, UnitRows]  # number of a layer -> its hidden units


def cosines(a: UnitRows, b: UnitRows) -> Array:
    """Return for every unit of A and every unit of B the cosine of what they read times that of what they write."""
    return np.asarray((a.inner @ b.inner.T) * (a.outer @ b.outer.T))


def likeness(a: UnitRows, b: UnitRows) -> Array:
    """Return the likeness of every unit of A and every unit of B, between -1 and 1."""
    # It is the cosine of what they read times that of what they write. With gates it is that product times the cosine
    # of their gates, to the power of 2/3: three cosines then count as much as two. Reader and writer may both change
    # their sign, and opposite gates have nothing in common, nor do a unit with a gate and one without.
    products = cosines(a, b)
    if not a.gate.shape[1] and not b.gate.shape[1]:
        return products
    if a.gate.shape[1] != b.gate.shape[1]:
        return np.zeros_like(products)
    products *= np.maximum(a.gate @ b.gate.T, 0)
    return np.cbrt(products, out=products) ** 2 * np.sign(products)


@dataclass(frozen=True)
class OrderedUnits:
    """Hidden units of a model in one order, layer after layer."""

    inner: Array  # (u, d): the reader of each unit, of length 1
    outer: Array  # (u, d): the writer of each unit, of length 1
    weight: Array  # (u,): the square root of the share of each unit in all that the units add
    layers: tuple[slice, ...]  # the units of each layer
    wide: bool = False  # whether their stream has more coordinates than those that they are given in

    def rows(self, units: NDArray[np.int64] | slice) -> tuple[Array, Array]:
        """Return the readers and the writers of some units."""
        return self.inner[units], self.outer[units]


def distinct(units: OrderedUnits) -> float:
    """Return about the number of different units: copies, such as the experts made of one dense layer, count as one."""
    count = len(units.weight)
    order = np.argsort(random_stream(f"units that may be copies {count}").random_raw(count), kind="stable")
    probes = order[: 2**12]  # copies are counted for these
    inner, outer = units.rows(probes)
    least = COPIES * np.vecdot(inner, inner) * np.vecdot(outer, outer)
    tiles = [slice(start, start + TILE) for start in range(0, len(probes), TILE)]
    copies = np.concatenate([(_cosines(units, inner, outer, tile) >= least[tile]).sum(axis=0) for tile in tiles])
    return count * float(np.mean(1 / np.maximum(copies, 1)))


def match_units(base: OrderedUnits, candidate: OrderedUnits) -> "MatchedPairs":
    """Return the units that pair up, after the last round of matching; NothingToCompare for few in a wide stream."""
    first, second = _first_pairs(base, candidate)
    turn = _polar(product(base, candidate, first, second, _agreement(base, candidate, first, second)))
    last = MatchedPairs(base, candidate, turn)
    for number in range(1, 8):
        before, last = last, MatchedPairs(base, candidate, last.best_rotation(base, candidate))
        if number >= 3 and last.share - before.share < 0.005:
            break
    if (base.wide or candidate.wide) and last.share < HARDLY:
        raise NothingToCompare(f"only {last.share:.1%} of what hidden units write has a counterpart")
    return last


def heavier(units: OrderedUnits, most: int) -> OrderedUnits:
    """Return at most so many units: of each layer those that write most."""
    each = most // len(units.layers)
    rows = [np.argsort(-units.weight[layer], kind="stable")[:each] + layer.start for layer in units.layers]
    chosen, ends = np.sort(np.concatenate(rows)), np.cumsum([0, *map(len, rows)]).tolist()
    layers, (inner, outer) = tuple(slice(*both) for both in pairwise(ends)), units.rows(chosen)
    return OrderedUnits(inner, outer, units.weight[chosen], layers, units.wide)


def _first_pairs(base: OrderedUnits, candidate: OrderedUnits) -> tuple[Numbers, Numbers]:
    """Return units with similar descriptions, (n,) each: among all, and layer by layer if both have as many layers."""
    parts = [(slice(0, len(base.weight)), slice(0, len(candidate.weight)))]
    if 1 < len(base.layers) == len(candidate.layers):
        parts += zip(base.layers, candidate.layers, strict=True)
    nearest = list[tuple[Numbers, Numbers]]()
    for part, other in parts:
        if min(part.stop - part.start, other.stop - other.start) >= MUTUAL:
            a, b = describe_units(base, part), describe_units(candidate, other)
            halves = [(numbers**2).sum(axis=1) / 2 for numbers in (a, b)]
            mine, others, _ = _best(partial(_nearness, (a, halves[0]), (b, halves[1])), len(a), len(b))
            nearest.append((mine + part.start, others + other.start))
    return np.concatenate([pair[0] for pair in nearest]), np.concatenate([pair[1] for pair in nearest])


def _nearness(one: tuple[Array, Array], other: tuple[Array, Array], tile: slice) -> Array:
    return one[0] @ other[0][tile].T - one[1][:, None] - other[1][tile]


def describe_units(units: OrderedUnits, part: slice) -> Array:
    """Return numbers (u, f) that describe each unit in any coordinates and in any order of the units."""
    # If Q rotates the stream of a model, it rotates what units read and write, a and b. It then rotates every form of
    # all units as well, such as A = Σ n a aᵀ. So aᵀ A a, or aᵀ A b, is the same number in any coordinates.
    (inner, outer), weight = units.rows(part), units.weight[part]
    weighed = inner * weight[:, None], outer * weight[:, None]
    read, written, both = weighed[0].T @ inner, weighed[1].T @ outer, weighed[1].T @ inner
    forms = [read, written, both, read @ read, written @ written, both @ both, both @ both.T]
    forms += [both.T @ both, read @ written, both @ read, written @ both]
    numbers = [np.vecdot(inner, outer)]
    for form in forms:
        one, other = inner @ form, outer @ form
        numbers += [np.vecdot(*pair) for pair in ((one, inner), (one, outer), (other, outer), (other, inner))]
    described = np.stack(numbers, axis=1)
    described -= np.median(described, axis=0)
    described /= np.abs(described).mean(axis=0) + 1e-30
    return described.clip(-8.0, 8.0)  # so many mean deviations: no number outweighs the others


def _agreement(base: OrderedUnits, candidate: OrderedUnits, first: Numbers, second: Numbers) -> Array:
    """Return each pair's agreement with all others, with its sign: the strongest direction of G, never formed."""
    (inner, outer), (other_inner, other_outer) = base.rows(first), candidate.rows(second)
    weights = np.ones(len(first), dtype=np.float32)
    for _ in range(50):
        column, before = weights[:, None], weights
        agreed = (inner * column).T @ other_inner + (outer * column).T @ other_outer
        weights = np.vecdot(inner @ agreed, other_inner) + np.vecdot(outer @ agreed, other_outer) - 2 * weights
        weights /= np.linalg.norm(weights) + 1e-30
        if abs(weights @ before) > 1 - 1e-4:
            break
    return weights


def product(base: OrderedUnits, candidate: OrderedUnits, first: Numbers, second: Numbers, weights: Array) -> Array:
    """Return Σ v (a a'ᵀ + b b'ᵀ) over pairs."""
    total = np.zeros((base.inner.shape[1], candidate.inner.shape[1]), np.float32)
    for start in range(0, len(first), TILE):
        some = slice(start, start + TILE)
        for one, other in zip(base.rows(first[some]), candidate.rows(second[some]), strict=True):
            total += (one * weights[some, None]).T @ other.astype(np.float32, copy=False)
    return total


class MatchedPairs:
    """The units that pair up after a rotation of the candidate's stream."""

    def __init__(self, base: OrderedUnits, candidate: OrderedUnits, turn: Array) -> None:
        inner, outer = candidate.inner @ turn.T, candidate.outer @ turn.T
        columns = partial(_cosines, base, inner, outer)
        self.first, self.second, best = _best(columns, len(base.weight), len(candidate.weight))
        same_sign = np.sign(np.vecdot(base.inner[self.first], inner[self.second]))
        self.weights: Array = (np.maximum(best[self.second], 0) * same_sign).astype(np.float32)
        self.share = float(candidate.weight[best > ALIKE].sum() / candidate.weight.sum())

    def best_rotation(self, base: OrderedUnits, candidate: OrderedUnits) -> Array:
        """Return the rotation that fits these pairs best."""
        return _polar(product(base, candidate, self.first, self.second, self.weights))


def _cosines(base: OrderedUnits, inner: Array, outer: Array, tile: slice) -> Array:
    return (base.inner @ inner[tile].T) * (base.outer @ outer[tile].T)


def _polar(product: Array) -> Array:
    """Return the polar factor (d, d') of a matrix; directions in which there is nothing are left out."""
    if product.shape[0] < product.shape[1]:
        return _polar(product.T).T
    scaled = product.astype(np.float64) / max(float(np.abs(product).max(initial=0.0)), 1e-300)
    directions, scaled_directions = compute_whitening(scaled.T @ scaled, LEAST)
    return np.asarray((scaled_directions @ (directions.T @ scaled.T)).T.astype(np.float32))


def compute_whitening(square: Vector, least: float) -> tuple[Vector, Vector]:
    """Return directions (d, r) of a positive G (d, d), and these times one over the root of G along each of them."""
    squares, directions = np.linalg.eigh(square)
    mask = squares > max(least**2 * squares[-1], 0.0)  # roots below `least` of the largest are left out
    return directions[:, mask], directions[:, mask] * (1 / np.sqrt(squares[mask]))


def _best(columns: Callable[[slice], Array], rows: int, count: int) -> tuple[Numbers, Numbers, Array]:
    """Return rows and columns that are each other's best in a matrix made by columns, and the best of every column."""
    best, of_other, column = np.full(rows, -np.inf, np.float32), np.empty(count, np.float32), np.zeros(rows, np.int64)
    for start in range(0, count, TILE):
        tile = slice(start, min(start + TILE, count))
        values = columns(tile)
        nearest, of_other[tile] = values.argmax(axis=1), values.max(axis=0)
        better = (highest := values[np.arange(rows), nearest]) > best
        best[better], column[better] = highest[better], nearest[better] + start
    mutual = np.flatnonzero(best == of_other[column])
    return mutual, column[mutual], of_other
