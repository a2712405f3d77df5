"""Orthogonal fit: how the residual coordinates of two models belong together, from their hidden units alone.

An orthogonal change Q of the residual coordinates rotates everything that a unit reads, a, and writes, b. It does not
change numbers such as aᵀ A a or aᵀ M b, where A = Σ n a aᵀ and M = Σ n b aᵀ are forms of all units; nor does the order
of the units. So such numbers describe a unit in any coordinates. Units of two models with similar descriptions make
pairs, and many of these are wrong. Right pairs agree with each other: the strongest direction v of

    G_ij = (a_i · a_j)(a'_i · a'_j) + (b_i · b_j)(b'_i · b'_j)

weighs them and finds their signs, for (a, b) and (-a, -b) are one unit (spectral matching: Leordeanu and Hebert 2005).
Q is the polar factor of Σ v (a a'ᵀ + b b'ᵀ), the solution of the orthogonal Procrustes problem (Schönemann 1966); pairs
are then made anew with it, until there are no more. For models of unlike widths Q is a partial isometry. Rows seen
through the final Q are levelled, and have to be scaled to length 1 again.

Nothing in it depends on the order in which units are stored, so that a test of their order remains exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.computing import compute_whitening, sum_squares
from hf_lineage.signature.recipe import Array, Vector, signs
from hf_lineage.signature.units.pairs import LEAST, MUTUAL, OrderedUnits, distinct, matched, pairs, product
from hf_lineage.signature.units.rows import UnitRows
from hf_lineage.signature.units.token_fit import seen_through

MOST_UNITS = 2**14
"""The most units of a model that are matched, or as many as its width needs: those of every layer that write most."""
LIVE = 1e-3
"""A unit that weighs less than this share of the mean is left out."""
DIRECTIONS, SPARE, POWERS = 512, 32, 8
"""How many coordinates units are matched in. Of a wider stream these are its strongest directions, by subspace
iteration with some spare ones (Halko, Martinsson and Tropp 2011)."""
SCREENED, SCREENED_DIRECTIONS = 2**11, 128
"""Units of a wide stream, and coordinates in which they are matched, before any others are read."""
OVER, TAKEN = 4, 4.5
"""How many units there must be for each coordinate, or coordinates may fit by chance; and how many are taken, because
those that write almost nothing are left out."""
TILE = 2**10


def most_of_a_layer(width: int, layers: int) -> int:
    """Return how many units of each of so many layers are matched at most.

    They are enough to fit the coordinates of a stream of this width to them.
    """
    return -(-max(MOST_UNITS, round(TAKEN * width)) // max(layers, 1))


def pooled(layers: Sequence[UnitRows]) -> OrderedUnits:
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
    return OrderedUnits(inner, outer, weight.astype(np.float32), tuple(slice(*both) for both in pairwise(ends)))


def between(base: OrderedUnits, candidate: OrderedUnits) -> tuple[Array, Array]:
    """Return matrices (s, d) that bring the units of the base and of the candidate into the same coordinates.

    Raise NothingToCompare where there are too few units for the width of their streams.
    """
    widest = max(base.inner.shape[1], candidate.inner.shape[1])
    if min(len(base.weight), len(candidate.weight)) < max(OVER * widest, MUTUAL):
        raise NothingToCompare(f"too few hidden units to match the coordinates of streams of width {widest}")
    main = _directions(base), _directions(candidate)
    narrow = _narrowed(base, main[0]), _narrowed(candidate, main[1])
    if min(map(distinct, narrow)) < OVER * widest:
        raise NothingToCompare(f"too few different hidden units to fit the coordinates of streams of width {widest}")
    first, second, weights = pairs(*narrow)
    if len(first) < widest:
        raise NothingToCompare(f"only {len(first)} hidden units have a counterpart, in streams of width {widest}")
    seen = _levelled(seen_through(base.inner.shape[1]), base, main[0])
    return seen, _rotated(seen, product(base, candidate, first, second, weights))


def screen(base: OrderedUnits, candidate: OrderedUnits) -> None:
    """Raise NothingToCompare if hardly any of the loudest units of two wide streams have a counterpart.

    This ends a search without hope after about a tenth of its time.
    """
    matched(*(_narrowed(units, _directions(units, SCREENED_DIRECTIONS)) for units in (base, candidate)))


def _rotated(seen: Array, matrix: Array) -> Array:
    """The product of a matrix (s, d) and the polar factor (d, d') of another; the factor itself is never computed."""
    scaled = matrix.astype(np.float64) / max(float(np.abs(matrix).max(initial=0.0)), 1e-300)
    if matrix.shape[0] < matrix.shape[1]:
        rotated = compute_whitening(scaled @ scaled.T, LEAST).times(seen.T.astype(np.float64)).T @ scaled
    else:
        rotated = compute_whitening(scaled.T @ scaled, LEAST).times((seen @ scaled).T).T
    return rotated.astype(np.float32)


def _levelled(through: Array, base: OrderedUnits, main: tuple[Vector, Array]) -> Array:
    """A matrix (s, d) that limits every direction of the stream to the mean size of all directions.

    When that mean is taken, larger directions count as the mean. In some models, such as some of GPT-2's architecture,
    many units read or write almost the same. Without the limit, fitting this one direction to one of another model
    would make all these units alike.
    """
    sizes, directions = main
    total, width = 2 * float(base.weight.sum()), base.inner.shape[1]
    mean = (total - float(np.maximum(sizes - total / width, 0).sum())) / width
    capped = np.minimum(1.0, np.sqrt(mean / np.maximum(sizes, 1e-30)))
    levelled: Array = through + ((through @ directions) * (capped - 1)) @ directions.T
    return levelled.astype(np.float32)


def _narrowed(units: OrderedUnits, main: tuple[Vector, Array]) -> OrderedUnits:
    """The units of a wide stream in its strongest directions, scaled to length 1 there."""
    directions = main[1].astype(np.float32)
    if len(directions) == directions.shape[1]:
        return units
    inner, outer = (
        np.concatenate([_of_length_one(some @ directions) for some in _blocks(rows)])
        for rows in (units.inner, units.outer)
    )
    return OrderedUnits(inner, outer, units.weight, units.layers, wide=True)


def _of_length_one(rows: Array) -> Array:
    scaled: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    return scaled


def _blocks(rows: Array) -> Iterator[Array]:
    """Rows in single precision, some at a time."""
    return (rows[start : start + TILE].astype(np.float32) for start in range(0, len(rows), TILE))


def _directions(units: OrderedUnits, most: int = DIRECTIONS) -> tuple[Vector, Array]:
    """The strongest directions of the units of a stream, (d, n), n at most `most`, and how much lies in each."""
    width = units.inner.shape[1]
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


def _orthonormal(columns: Array) -> Array:
    """Orthonormal columns that span the same as some columns (d, n), of which there are far fewer than d."""
    wide = columns.astype(np.float64)
    whitening = compute_whitening(wide.T @ wide, LEAST)
    return (wide @ (whitening.directions * whitening.over)).astype(np.float32)


def _strongest(times: Callable[[Array], Array], width: int, most: int) -> tuple[Vector, Array]:
    """The strongest directions of a symmetric matrix, given what multiplies columns by it, by subspace iteration."""
    directions = signs("directions of a stream", (width, most + SPARE))
    for _ in range(POWERS):
        directions = _orthonormal(times(directions))
    sizes, within = np.linalg.eigh(directions.T @ times(directions))
    return sizes[-most:], directions @ within[:, -most:]
