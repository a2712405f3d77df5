"""Orthogonal fit: the rotation between the residual coordinates of two models, from their hidden units alone.

It rotates all that units read, a, and write, b. Units are paired by what it leaves as it is (see `describe_units`).
Right pairs agree with each other: the strongest direction v of G_ij = (a_i·a_j)(a'_i·a'_j) + (b_i·b_j)(b'_i·b'_j)
weighs them and finds their signs (Leordeanu and Hebert 2005). The rotation is the polar factor of Σ v (a a'ᵀ + b b'ᵀ)
(Procrustes: Schönemann 1966); pairs are made anew with it, until there are no more. Rows seen through it are levelled,
and have to be scaled to length 1 again. No step depends on the order of units, so a test of it remains exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature import unit_rows
from hf_lineage.signature.arrays import compute_whitening, sum_squares
from hf_lineage.signature.recipe import Array, Vector, signs
from hf_lineage.signature.token_coordinates import seen_through
from hf_lineage.signature.unit_rows import MatchedPairs, OrderedUnits, UnitRows, match_units

MOST_UNITS, MOST_WIDE = 2**14, 2**13  # the most units of a model that are matched, and of one with a wide stream
DIRECTIONS = 512  # the most coordinates in which units are matched: of a wider stream its strongest directions
SCREENED, SCREENED_DIRECTIONS = 2**11, 128  # the same where units of a wide stream are matched before others are read
OVER = 4  # the fewest units for each coordinate; with fewer, coordinates may fit by chance
BEYOND = 2**10  # pairs, about, that are compared in all other directions
AGREED, LITTLE = 0.2, 0.01  # the agreement that they need there, and the least share of their squared length there


def most_of_a_layer(width: int, layers: int) -> int:
    """Return the most units of each of so many layers that are matched to fit the coordinates of a stream."""
    return -(-(MOST_WIDE if width > DIRECTIONS else MOST_UNITS) // max(layers, 1))


def pool_units(layers: Sequence[UnitRows]) -> OrderedUnits:
    """Return the units of some layers as one; those that write next to nothing are left out."""
    added = [layer.weight / max(float(layer.weight.sum()), 1e-300) for layer in layers]
    roots = [np.sqrt(layer / max(float(sum(map(np.sum, added))), 1e-300)) for layer in added]
    mean = sum(map(np.sum, roots)) / max(sum(map(len, roots)), 1)
    live = [np.flatnonzero(root > 1e-3 * mean) for root in roots]
    ends = np.cumsum([0, *map(len, live)]).tolist()
    inner, outer, weight = (
        np.concatenate([side[units] for side, units in zip(sides, live, strict=True)])
        for sides in ([layer.inner for layer in layers], [layer.outer for layer in layers], roots)
    )
    return OrderedUnits(inner, outer, weight.astype(np.float32), tuple(slice(*both) for both in pairwise(ends)))


def between(base: OrderedUnits, candidate: OrderedUnits) -> tuple[Array, Array]:
    """Return matrices (s, d) that bring units of both to the same coordinates; NothingToCompare for too few units."""
    coordinates = min(max(base.inner.shape[1], candidate.inner.shape[1]), DIRECTIONS)
    if min(len(base.weight), len(candidate.weight)) < max(OVER * coordinates, unit_rows.MUTUAL):
        raise NothingToCompare(f"too few hidden units to match {coordinates} coordinates of a stream")
    main = _directions(base, DIRECTIONS), _directions(candidate, DIRECTIONS)
    own, others = map(_within, main)
    narrow = _narrow(base, own), _narrow(candidate, others)
    if min(map(unit_rows.distinct, narrow)) < OVER * coordinates:
        raise NothingToCompare(f"too few different hidden units to fit {coordinates} coordinates of a stream")
    last = match_units(*narrow)
    if (count := len(last.first)) < coordinates:
        raise NothingToCompare(f"only {count} hidden units have a counterpart, to fit {coordinates} coordinates")
    if beyond(base, candidate, (own, others), last) < AGREED:
        raise NothingToCompare("hidden units have counterparts in the strongest directions of their stream alone")
    # Larger directions are limited to the mean size. In some models, as of GPT-2's architecture, many units read or
    # write almost the same: fitting this one direction to one of another model would make all these units alike.
    through, (sizes, directions) = seen_through(own.shape[1]) @ own.T, main[0]
    mean = np.minimum(sizes, sizes.mean()).mean()
    capped = np.minimum(1.0, np.sqrt(mean / np.maximum(sizes, 1e-30)))
    levelled = np.asarray(through + ((through @ directions) * (capped - 1)) @ directions.T, np.float32)
    turned = (levelled @ own) @ last.best_rotation(*narrow)
    return levelled, (turned @ others.T).astype(np.float32, copy=False)


def beyond(base: OrderedUnits, candidate: OrderedUnits, within: tuple[Array, Array], pairs: MatchedPairs) -> float:
    """Return the agreement of paired units outside the directions in which they were matched, from -1 to 1.

    A model that has copied only these directions of its units is no descendant. Inner products of the units' remainders
    are the same in any coordinates. It is 1 where these are next to nothing, or next to no units are alike.
    """
    alike = np.flatnonzero(np.abs(pairs.weights) > unit_rows.ALIKE)
    alike = alike[:: max(1, len(alike) // BEYOND)]
    if len(alike) < unit_rows.MUTUAL:
        return 1.0
    signs_of, worst = np.sign(pairs.weights[alike])[:, None], 1.0
    for side, other in zip(base.rows(pairs.first[alike]), candidate.rows(pairs.second[alike]), strict=True):
        left, left_of_other = _remove_span(side, within[0]), _remove_span(other, within[1]) * signs_of
        if max(float((rows**2).sum(axis=1).mean()) for rows in (left, left_of_other)) < LITTLE:
            continue
        squares = [rows @ rows.T for rows in (left, left_of_other)]
        for square in squares:
            np.fill_diagonal(square, 0)
        size = float(np.linalg.norm(squares[0]) * np.linalg.norm(squares[1]))
        worst = min(worst, float(np.vdot(*squares)) / max(size, 1e-30))
    return worst


def _remove_span(rows: Array, directions: Array) -> Array:
    single = rows.astype(np.float32)
    return (single - (single @ directions) @ directions.T).astype(np.float32, copy=False)


def _within(main: tuple[Vector, Array]) -> Array:
    """Return the coordinates in which units of a stream are matched, (d, n): all, or its strongest directions."""
    width, count = main[1].shape
    return np.eye(width, dtype=np.float32) if count == width else main[1].astype(np.float32)


def screen(base: OrderedUnits, candidate: OrderedUnits) -> None:
    """Raise NothingToCompare if hardly any of the loudest units of two wide streams pair up: it saves nine tenths."""
    match_units(*(_narrow(units, _within(_directions(units, SCREENED_DIRECTIONS))) for units in (base, candidate)))


def _narrow(units: OrderedUnits, directions: Array) -> OrderedUnits:
    """Return the units of a wide stream in its strongest directions (d, n), scaled to length 1 there."""
    if len(directions) == directions.shape[1]:
        return units
    sides = [np.concatenate([some @ directions for some in _blocks(rows)]) for rows in (units.inner, units.outer)]
    inner, outer = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) for rows in sides)
    return OrderedUnits(inner, outer, units.weight, units.layers, wide=True)


def _blocks(rows: Array) -> Iterator[Array]:
    return (rows[start : start + 2**10].astype(np.float32) for start in range(0, len(rows), 2**10))


def _directions(units: OrderedUnits, most: int) -> tuple[Vector, Array]:
    """Return the size of each of the strongest directions of the units of a stream, and these, (d, n), n <= `most`."""
    width = units.inner.shape[1]
    if most < width:  # the heavier half of the units decides which these are
        units = unit_rows.heavier(units, len(units.weight) // 2)
    roots = _blocks(np.sqrt(units.weight)[:, None].astype(np.float32))
    sides = zip(_blocks(units.inner), _blocks(units.outer), roots, strict=True)
    weighed = (rows * root for inner, outer, root in sides for rows in (inner, outer))
    if most < width and 2 * len(units.weight) <= width:  # their square would be larger than they are
        few = np.concatenate(list(weighed))
        return _strongest(lambda columns: few.T @ (few @ columns), width, most)
    square = sum_squares(weighed, width)
    return np.linalg.eigh(square) if width <= most else _strongest(square.__matmul__, width, most)


def _strongest(times: Callable[[Array], Array], width: int, most: int) -> tuple[Vector, Array]:
    """Return the strongest directions of a symmetric matrix, given its product with columns, by subspace iteration."""
    directions = signs("directions of a stream", (width, most + 32))  # some spare ones (Halko and others 2011)
    for _ in range(5):
        wide = times(directions).astype(np.float64)  # made orthonormal
        whitening = compute_whitening(wide.T @ wide, unit_rows.LEAST)
        directions = (wide @ (whitening.directions * whitening.over)).astype(np.float32)
    sizes, within = np.linalg.eigh(directions.T @ times(directions))
    return sizes[-most:], directions @ within[:, -most:]
