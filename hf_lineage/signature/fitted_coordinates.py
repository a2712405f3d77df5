"""Orthogonal fit: the rotation between the residual coordinates of two models, from their hidden units alone.

An orthogonal change Q of the residual coordinates rotates everything that a unit reads, a, and writes, b. Let
A = Σ n a aᵀ and M = Σ n b aᵀ be forms of all units. Neither Q nor the order of the units changes aᵀ A a or aᵀ M b.
So such numbers describe a unit in any coordinates. Units of two models with similar descriptions make pairs, and many
of these are wrong. Right pairs agree with each other, and their agreement is the matrix

    G_ij = (a_i · a_j)(a'_i · a'_j) + (b_i · b_j)(b'_i · b'_j).

Its strongest direction v weighs the pairs and finds their signs, for (a, b) and (-a, -b) are one unit (spectral
matching: Leordeanu and Hebert 2005). Q is the polar factor of Σ v (a a'ᵀ + b b'ᵀ), the solution of the orthogonal
Procrustes problem (Schönemann 1966); pairs are then made anew with it, until there are no more. For unlike widths Q is
a partial isometry. Rows seen through the final Q are levelled, and have to be scaled to length 1 again. Units of a wide
stream are matched and seen in their strongest directions: training changes these least, relative to their size.

No step depends on the order in which units are stored, so that a test of their order remains exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.arrays import compute_whitening, sum_squares
from hf_lineage.signature.recipe import Array, Vector, signs
from hf_lineage.signature.token_coordinates import seen_through
from hf_lineage.signature.unit_rows import (
    ALIKE,
    LEAST,
    MUTUAL,
    MatchedPairs,
    OrderedUnits,
    UnitRows,
    distinct,
    heavier,
    match_units,
)

MOST_UNITS, MOST_WIDE = 2**14, 2**13
"""The most units of a model that are matched, and of one with a wide stream: those of every layer that write most."""
LIVE = 1e-3  # a unit that weighs less than this share of the mean is left out
DIRECTIONS, SPARE, POWERS = 512, 32, 5
"""The most coordinates in which units are matched: of a wider stream its strongest directions, by subspace iteration
with some spare ones (Halko, Martinsson and Tropp 2011)."""
SCREENED, SCREENED_DIRECTIONS = 2**11, 128
"""Units of a wide stream that are matched before any others are read, and coordinates in which they are matched."""
OVER = 4  # the fewest units for each coordinate; with fewer, coordinates may fit by chance
BEYOND, AGREED, LITTLE = 2**10, 0.2, 0.01
"""The number of pairs, about, that are compared in all other directions, and the agreement that they need there. And
the least share of their squared length that has to lie there for this comparison."""
TILE = 2**10


def most_of_a_layer(width: int, layers: int) -> int:
    """Return the most units that are matched of each of so many layers.

    They are enough to fit the coordinates of a stream of this width.
    """
    return -(-(MOST_WIDE if width > DIRECTIONS else MOST_UNITS) // max(layers, 1))


def pool_units(layers: Sequence[UnitRows]) -> OrderedUnits:
    """Return the units of some layers as one; those that write next to nothing are left out."""
    added = [layer.weight / max(float(layer.weight.sum()), 1e-300) for layer in layers]
    roots = [np.sqrt(layer / max(float(sum(map(np.sum, added))), 1e-300)) for layer in added]
    mean = sum(map(np.sum, roots)) / max(sum(map(len, roots)), 1)
    live = [np.flatnonzero(root > LIVE * mean) for root in roots]
    ends = np.cumsum([0, *map(len, live)]).tolist()
    inner, outer, weight = (
        np.concatenate([side[units] for side, units in zip(sides, live, strict=True)])
        for sides in ([layer.inner for layer in layers], [layer.outer for layer in layers], roots)
    )
    return OrderedUnits(inner, outer, weight.astype(np.float32), tuple(slice(*both) for both in pairwise(ends)))


def between(base: OrderedUnits, candidate: OrderedUnits) -> tuple[Array, Array]:
    """Return matrices (s, d) that bring the units of the base and of the candidate into the same coordinates.

    Units of a wide stream are seen in its strongest directions alone, in which they were matched. Raise
    NothingToCompare where there are too few units for as many coordinates.
    """
    coordinates = min(max(base.inner.shape[1], candidate.inner.shape[1]), DIRECTIONS)
    if min(len(base.weight), len(candidate.weight)) < max(OVER * coordinates, MUTUAL):
        raise NothingToCompare(f"too few hidden units to match {coordinates} coordinates of a stream")
    main = _directions(base, DIRECTIONS), _directions(candidate, DIRECTIONS)
    own, others = map(_within, main)
    narrow = _narrow(base, own), _narrow(candidate, others)
    if min(map(distinct, narrow)) < OVER * coordinates:
        raise NothingToCompare(f"too few different hidden units to fit {coordinates} coordinates of a stream")
    last = match_units(*narrow)
    if len(last.first) < coordinates:
        raise NothingToCompare(
            f"only {len(last.first)} hidden units have a counterpart, to fit {coordinates} coordinates"
        )
    if beyond(base, candidate, (own, others), last) < AGREED:
        raise NothingToCompare("hidden units have counterparts in the strongest directions of their stream alone")
    seen = _level_directions(seen_through(own.shape[1]) @ own.T, main[0])
    turned = (seen @ own) @ last.best_rotation(*narrow)
    return seen, (turned @ others.T).astype(np.float32, copy=False)


def beyond(base: OrderedUnits, candidate: OrderedUnits, within: tuple[Array, Array], pairs: MatchedPairs) -> float:
    """Return the agreement of paired units outside the directions in which they were matched, from -1 to 1.

    A model that has copied only these directions of its units is no descendant. Inner products of units are the same in
    any coordinates. So those of the remainders of the units in either model are compared, with no further fit. The
    result is 1 where the remainders are next to nothing, or next to no units are alike.
    """
    alike = np.flatnonzero(np.abs(pairs.weights) > ALIKE)
    alike = alike[:: max(1, len(alike) // BEYOND)]
    signs_of = np.sign(pairs.weights[alike])[:, None]
    worst = 1.0
    for side, other in zip(base.rows(pairs.first[alike]), candidate.rows(pairs.second[alike]), strict=True):
        left, left_of_other = _remove_span(side, within[0]), _remove_span(other, within[1]) * signs_of
        if len(alike) < MUTUAL or max(float((rows**2).sum(axis=1).mean()) for rows in (left, left_of_other)) < LITTLE:
            continue
        squares = [rows @ rows.T for rows in (left, left_of_other)]
        for square in squares:
            np.fill_diagonal(square, 0)
        size = float(np.linalg.norm(squares[0]) * np.linalg.norm(squares[1]))
        worst = min(worst, float(np.vdot(*squares)) / max(size, 1e-30))
    return worst


def _remove_span(rows: Array, directions: Array) -> Array:
    """Return the remainder of rows (u, d) without some orthonormal directions (d, n)."""
    single = rows.astype(np.float32)
    return (single - (single @ directions) @ directions.T).astype(np.float32, copy=False)


def _within(main: tuple[Vector, Array]) -> Array:
    """Return the coordinates in which units of a stream are matched, (d, n): all, or its strongest directions."""
    width, count = main[1].shape
    return np.eye(width, dtype=np.float32) if count == width else main[1].astype(np.float32)


def screen(base: OrderedUnits, candidate: OrderedUnits) -> None:
    """Raise NothingToCompare if hardly any of the loudest units of two wide streams have a counterpart.

    This ends a search without hope after about a tenth of its time.
    """
    match_units(*(_narrow(units, _within(_directions(units, SCREENED_DIRECTIONS))) for units in (base, candidate)))


def _level_directions(through: Array, main: tuple[Vector, Array]) -> Array:
    """Return a matrix (s, d) that limits every direction in which units were matched to the mean size of all of them.

    When that mean is taken, larger directions count as the mean. In some models, such as some of GPT-2's architecture,
    many units read or write almost the same. Without the limit, fitting this one direction to one of another model
    would make all these units alike.
    """
    sizes, directions = main
    mean = np.minimum(sizes, sizes.mean()).mean()
    capped = np.minimum(1.0, np.sqrt(mean / np.maximum(sizes, 1e-30)))
    return np.asarray(through + ((through @ directions) * (capped - 1)) @ directions.T, np.float32)


def _narrow(units: OrderedUnits, directions: Array) -> OrderedUnits:
    """Return the units of a wide stream in its strongest directions (d, n), scaled to length 1 there."""
    if len(directions) == directions.shape[1]:
        return units
    sides = [np.concatenate([some @ directions for some in _blocks(rows)]) for rows in (units.inner, units.outer)]
    inner, outer = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) for rows in sides)
    return OrderedUnits(inner, outer, units.weight, units.layers, wide=True)


def _blocks(rows: Array) -> Iterator[Array]:
    """Yield rows in single precision, some at a time."""
    return (rows[start : start + TILE].astype(np.float32) for start in range(0, len(rows), TILE))


def _directions(units: OrderedUnits, most: int) -> tuple[Vector, Array]:
    """Return the strongest directions of the units of a stream, (d, n), n at most `most`, and the size of each.

    Where there are more, the heavier half of the units decides which these are.
    """
    width = units.inner.shape[1]
    if most < width:
        units = heavier(units, len(units.weight) // 2)
    roots = _blocks(np.sqrt(units.weight)[:, None].astype(np.float32))
    weighed = (
        rows * root
        for inner, outer, root in zip(_blocks(units.inner), _blocks(units.outer), roots, strict=True)
        for rows in (inner, outer)
    )
    if most < width and 2 * len(units.weight) <= width:  # their square would be larger than they are
        few = np.concatenate(list(weighed))
        return _strongest(lambda columns: few.T @ (few @ columns), width, most)
    square = sum_squares(weighed, width)
    return np.linalg.eigh(square) if width <= most else _strongest(square.__matmul__, width, most)


def _strongest(times: Callable[[Array], Array], width: int, most: int) -> tuple[Vector, Array]:
    """Return the strongest directions of a symmetric matrix, given its product with columns, by subspace iteration."""
    directions = signs("directions of a stream", (width, most + SPARE))
    for _ in range(POWERS):
        wide = times(directions).astype(np.float64)  # made orthonormal
        whitening = compute_whitening(wide.T @ wide, LEAST)
        directions = (wide @ (whitening.directions * whitening.over)).astype(np.float32)
    sizes, within = np.linalg.eigh(directions.T @ times(directions))
    return sizes[-most:], directions @ within[:, -most:]
