"""Coordinates that two models share: by the rows of tokens that both have, or fitted to their hidden units alone.

A hidden unit with the direction b, in a stream where K tokens have the rows Y (K, d'), is a function of tokens: Y b. In
a wider stream with the rows X (K, d), least squares give nearly the same function: (XᵀX + λ)⁻¹ Xᵀ Y b with
λ = ε tr(XᵀX) / d, brought to length 1 again. Neither an orthogonal change of coordinates nor another order of units
changes anything in it. The ridge ε is chosen by generalised cross-validation (Golub, Heath and Wahba 1979).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import NothingToCompare
from hf_lineage.signature import unit_rows
from hf_lineage.signature.recipe import Array, Vector, signs
from hf_lineage.signature.sample import indices, runs
from hf_lineage.signature.unit_rows import MatchedPairs, OrderedUnits, UnitRows, compute_whitening, match_units

RIDGES = 1e-3, 1e-2  # the values of ε to choose from. Larger ones leave so few directions that independent units agree
ASKED = 64  # random directions in which the error of a fit is measured
SEEN = 256  # the most coordinates in which units are compared; of a wider stream these are random sums
MIRRORED = 256  # rows of a square that are mirrored at a time
SPANNED = 0.5  # the share of the narrower stream that rows of tokens have to span: fewer do not show most of a unit
Numbers = NDArray[np.int64]
MOST_UNITS, MOST_WIDE = 2**14, 2**13  # the most units of a model that are matched, and of one with a wide stream
DIRECTIONS = 512  # the most coordinates in which units are matched: of a wider stream its strongest directions
SCREENED, SCREENED_DIRECTIONS = 2**11, 128  # the same where units of a wide stream are matched before others are read
OVER = 4  # the fewest units for each coordinate; with fewer, coordinates may fit by chance
BEYOND = 2**10  # pairs, about, that are compared in all other directions
AGREED, LITTLE = 0.2, 0.01  # the agreement that they need there, and the least share of their squared length there


def sum_squares(blocks: Iterable[Array], width: int) -> Array:
    """Return the sum of XᵀX (width, width) over matrices X (n, width) of contiguous rows."""
    from scipy.linalg.blas import ssyrk  # a third of the start-up of a check, which mostly needs none

    square = np.zeros((width, width), np.float32, order="F")
    for rows in blocks:
        square = ssyrk(1.0, rows.T, beta=1.0, c=square, overwrite_c=True)
    mirror(square)
    return square


def mirror(square: Array) -> None:
    """Copy the numbers above the diagonal to their places below it."""
    for start in range(0, len(square), MIRRORED):
        stop = start + MIRRORED
        block = np.triu(square[start:stop, start:stop])
        square[start:stop, start:stop] = block + np.triu(block, 1).T
        square[stop:, start:stop] = square[start:stop, stop:].T


def prepare_rows(rows: Array) -> None:
    """Bring the rows (K, d) of the tokens of a stream to length 1 and take their mean away, in place."""
    # Else a few rows of unused tokens that were enlarged would decide the fit, and models that learned apart have a
    # mean in common. Raise NothingToCompare where they are not finite.
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))[:, None]
    if not np.isfinite(largest).all() or not largest.any():
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    np.divide(rows, largest, out=rows, where=largest > 0)
    lengths = np.sqrt(np.vecdot(rows, rows))[:, None]
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    rows -= rows.mean(axis=0)


def check_span(rows: Array, narrower: int) -> None:
    """Raise NothingToCompare where prepared rows (K, d) span too few directions of the narrower stream of the two."""
    wanted = SPANNED * narrower
    few = round(1.5 * wanted)  # more rows span no fewer directions, so some of the rows are tried first
    if few < min(rows.shape) and Ridges(rows[:: len(rows) // few][:few].T).span >= wanted:
        return
    _enough(Ridges(rows).span, rows, narrower)


def _enough(spanned: float, rows: Array, narrower: int) -> None:
    if spanned < SPANNED * narrower:
        span = f"the rows of {len(rows)} tokens span only about {spanned:.0f}"
        raise NothingToCompare(f"{span} of the {rows.shape[1]} directions of its stream")


class Ridges:
    """The square XᵀX of some rows X (K, d), and its factors with one ridge or another."""

    def __init__(self, rows: Array) -> None:
        self._square = (rows.T @ rows).T  # symmetric, and in the order of LAPACK, which would copy it otherwise
        self._diagonal = self._square.diagonal().copy()
        self._mean = float(self._diagonal.mean(dtype=np.float64))

    def factor(self, ridge: float) -> None:
        """Take the Cholesky factor of XᵀX + λ for a ridge ε; it takes the place of the one before."""
        from scipy.linalg import cho_factor

        square, self._ridge = self._square, ridge * self._mean
        mirror(square)  # a factor leaves the upper triangle as it was
        np.fill_diagonal(square, self._diagonal + self._ridge)
        self._triangle = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, columns: Array) -> Array:
        """Return (XᵀX + λ)⁻¹ of columns (d, n)."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._triangle, columns, check_finite=False))

    @property
    def freedom(self) -> float:
        """Tr (XᵀX + λ)⁻¹ XᵀX = d - λ tr (XᵀX + λ)⁻¹, by random signs (Hutchinson 1990)."""
        width = len(self._square)
        drawn = signs("freedom of a token fit", (width, ASKED))
        return width - self._ridge * float((drawn * self.solve(drawn)).sum()) / ASKED

    @property
    def span(self) -> float:
        """The number of directions, about, in which the rows lie."""
        if not self._mean > 1e-9:  # they are all the same
            return 0.0
        self.factor(RIDGES[0])
        return self.freedom


def fit_tokens(wide: Array, narrow: Array) -> tuple[Array, Array]:
    """Return what brings units of both streams to shared coordinates, by prepared rows of the same tokens."""
    ridges, through = Ridges(wide), seen_through(wide.shape[1])
    freedom = ridges.span
    _enough(freedom, wide, narrow.shape[1])
    sums = narrow @ signs("sums of a token fit", (narrow.shape[1], ASKED))
    columns, fits = np.hstack((through.T, wide.T @ sums)), list[tuple[float, Array]]()
    for ridge in RIDGES:
        if ridge != RIDGES[0]:
            ridges.factor(ridge)
            freedom = ridges.freedom
        solved, coefficients = np.hsplit(ridges.solve(columns), (len(through),))
        # The error with which the wider rows give sums of the narrower ones, corrected for the directions of the fit.
        error, free = np.square(sums - wide @ coefficients, dtype=np.float64).mean(), 1 - freedom / len(sums)
        fits.append((float(error) / max(free, 1e-6) ** 2, solved))
    _, solved = min(fits, key=itemgetter(0))
    return through, ((wide @ solved).T @ narrow).astype(np.float32, copy=False)


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))


def drawn_tokens(shared: int, widths: Sequence[int]) -> Numbers:
    """Return the shared tokens that are read, ascending: more make up for the noise of their rows, but cost time."""
    widest = max(widths)
    wanted = max(2 * widest, min(4 * widest, 4096))
    if shared <= wanted:
        return np.arange(shared)
    return indices(runs(shared, wanted, 64, f"tokens {shared} {wanted}"))


def read_token_rows(checkpoint: Checkpoint, name: str, numbers: Numbers) -> Array:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows."""
    stored = checkpoint.rows(name)
    if stored is None:
        whole = np.asarray(checkpoint.read(name))[numbers]
        return single(whole)
    ascending, places = np.unique(numbers, return_inverse=True)
    parts = np.split(ascending, np.flatnonzero(np.diff(ascending) > 1) + 1)  # of consecutive numbers
    pieces = [stored.tensor.rows(slice(int(part[0]), int(part[-1]) + 1)) for part in parts]
    rows = single(checkpoint.read_pieces(name, pieces))
    return rows if len(rows) == len(places) and bool((np.diff(places) > 0).all()) else rows[places]


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
    """Return the agreement of paired units outside the directions in which they were matched, from -1 to 1."""
    # A model that has copied only these directions is no descendant. Inner products of the units' remainders are the
    # same in any coordinates. It is 1 where these are next to nothing, or next to no units are alike.
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
        directions = (wide @ compute_whitening(wide.T @ wide, unit_rows.LEAST)[1]).astype(np.float32)
    sizes, within = np.linalg.eigh(directions.T @ times(directions))
    return sizes[-most:], directions @ within[:, -most:]
