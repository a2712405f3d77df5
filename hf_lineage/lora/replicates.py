"""Blocks of an adapter beside matrices of a base, and their statistics under permutations of their rows."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.p_values import not_below, standardise
from hf_lineage.evidence.unit_order import Numbers, orders_within, strata_of
from hf_lineage.signature.recipe import Array, Vector, random_stream
from hf_lineage.signature.recipe import signs as random_signs

DIRECTIONS, FEWEST_DIRECTIONS = 32, 8
"""The most directions of B A that are tested, those of the largest singular values, and the fewest of many rows."""
EXACT = 256
"""Up to so many columns, a matrix of the base is used as a whole, because its Gram matrix is small."""
PROBES, FEWEST_PROBES = 128, 32
"""A wider matrix is reduced to so many random sums of its rows; a very wide one to at least so many."""
SEEN, WRITTEN = 2**18, 2**16
"""The most numbers of a wide matrix, and of what is added, that each permutation multiplies: they bound the time."""
NEGLIGIBLE = 1e-12
"""Directions whose squared singular value is less than this part of the largest are rounding, or dead rank."""


@dataclass(frozen=True)
class Block:
    """One adapted matrix, and the matrix of the base that its gradient passed through."""

    role: str
    """Role of the matrix in its layer: up, gate, value, output or down."""
    layer: int
    permuted: str
    """Kind of its rows; rows of the same kind and number get the same permutation in all blocks."""
    written: Array
    """(g, n, q): the rows of U Σ^½ in their g exchangeable groups."""
    through: Array
    """(g, k, n): the matrix of the base seen through probes, each row's mean in a group removed."""
    size: float = 0.0
    """The size of the added numbers relative to those of the base (root mean squares)."""
    flips: bool = False
    """Whether a row may change its sign, together with what reads it."""

    @property
    def centred(self) -> Array:
        """(g, n, q): the rows, each column's mean in a group removed."""
        centred: Array = self.written - self.written.mean(axis=1, keepdims=True)
        return centred

    @property
    def energies(self) -> Vector:
        """(n,): how much is added to each row, in all groups together, over their mean."""
        energies: Vector = np.square(self.written, dtype=np.float64).sum(axis=(0, 2))
        return energies / (energies.mean() or 1.0)

    @property
    def directions(self) -> float:
        """The effective number of directions, 1 / Σ p² with p the part of each in the sum of singular values."""
        parts = np.sum(np.square(self.centred, dtype=np.float64), axis=(0, 1))
        return float(parts.sum() ** 2 / np.square(parts).sum()) if parts.any() else 0.0


def product_rows(second: Array, first: Array) -> Array:
    """Return U Σ^½ of the singular value decomposition B A = U Σ Vᵀ up to a factor, (rows, q) with q <= DIRECTIONS.

    They depend only on the product; q is 0 if it is zero. The root lets weaker directions count more than in B A
    itself, because all of them are gradients.
    """
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    rows = narrow @ _root(wide @ wide.T)
    squares, vectors = np.linalg.eigh(rows.T @ rows)
    most = max(FEWEST_DIRECTIONS, min(DIRECTIONS, WRITTEN // len(rows)))
    kept = np.argsort(squares)[::-1][:most]
    kept = kept[squares[kept] > squares.max(initial=0.0) * NEGLIGIBLE]
    largest = squares.max(initial=0.0) ** 0.25
    product: Array = (rows @ (vectors[:, kept] / squares[kept] ** 0.25) / (largest or 1.0)).astype(np.float32)
    return product


def _root(gram: Vector) -> Vector:
    """Return matrices R with R Rᵀ the Gram matrices (..., r, r)."""
    values, vectors = np.linalg.eigh(gram)
    root: Vector = vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :]
    return root


def compressed(parts: Iterable[tuple[Array, float]], purpose: str) -> Array:
    """Return (g, k, n) with the Gram matrices of some parts (g, rows, n), each times its weight, one above the other.

    They are exact for up to EXACT columns; otherwise they come from random sums of the rows, chosen by the purpose.
    """
    gram: Vector = np.zeros(())
    sums: NDArray[Any] = np.zeros((), np.float32)
    for number, (part, weight) in enumerate(parts):
        rows, columns = part.shape[1:]
        if columns <= EXACT:
            gram = gram + weight**2 * (part.mT @ part)
        else:
            probes = max(FEWEST_PROBES, min(PROBES, SEEN // columns))
            drawn = random_signs(f"adapter probes {purpose} {number} {rows}", (probes, rows))
            sums = sums + drawn * np.float32(weight / np.sqrt(probes)) @ part
    return _root(gram).mT.astype(np.float32) if gram.ndim else sums


def block(
    role: str, layer: int, permuted: str, written: Array, through: Array, size: float = 0.0, flips: bool = False
) -> Block:
    """Return a block from the rows of a product (g, n, q) and the columns of P that belong to them (g, k, n)."""
    return Block(role, layer, permuted, written, through - through.mean(axis=2, keepdims=True), size, flips)


ROUNDING = 1e-4
"""Statistics that differ by less than this part of a deviation are equal: they are sums in float32."""
FLIPPED = 16
"""Fewer rows have too few patterns of signs: they are permuted alone."""
BATCH = 64
"""Permutations and flips that are drawn at a time, to bound the memory."""


@dataclass(frozen=True)
class Half:
    """The statistics of every block as observed, and under permutations or under flips."""

    roles: tuple[str, ...]
    ratios: Vector
    """(n + 1, b)"""

    @functools.cached_property
    def by_role(self) -> Mapping[str, Vector]:
        """Return the sum over the blocks of each role, (n + 1,), standardised over the observed value and the others.

        The mean and the deviation include the observed value, so that all values contribute equally to them.
        """
        sums = {role: self._of(role).sum(axis=1) for role in dict.fromkeys(self.roles)}
        return {role: standardise(values, values) for role, values in sums.items()}

    @property
    def p_value(self) -> float:
        """The p-value of the largest statistic of all roles under the same elements (Westfall and Young 1993).

        One of the statistics is the sum over all roles: several weak traces together make a strong one.
        """
        each = np.array(list(self.by_role.values()))
        total = each.sum(axis=0)
        return _p_value(np.maximum(each.max(axis=0), standardise(total, total)))

    def p_of(self, role: str) -> float:
        """Return the p-value of one role by itself, without any correction."""
        return _p_value(self.by_role[role])

    def z_of(self, role: str) -> float:
        """Return by how many deviations of the other values one role lies above their mean."""
        return _above(self._of(role).sum(axis=1))

    @functools.cached_property
    def z_of_blocks(self) -> Vector:
        """(b,): the same for every block; a picture of where the trace is, not a test."""
        return np.array([_above(column) for column in self.ratios.T])

    @functools.cached_property
    def effect(self) -> float:
        """The largest effect of one projection, or that of all together.

        A projection counts no more than the median of its matrices gives, so a trace in a few of many matrices gains
        nothing.
        """
        each = np.array([self._effect_of(role) for role in self.by_role])
        total = _above(np.sum(list(self.by_role.values()), axis=0))
        return float(max(each.max(), min(total, each.sum() / np.sqrt(len(each)))))

    def _effect_of(self, role: str) -> float:
        zs = self.z_of_blocks[np.array(self.roles) == role]
        return min(self.z_of(role), float(np.quantile(zs, 0.5, method="lower") * np.sqrt(len(zs))))

    def _of(self, role: str) -> Vector:
        return self.ratios[:, np.array(self.roles) == role]


def replicate(blocks: Sequence[Block], count: int, seed: int) -> tuple[Vector, Vector]:
    """Return the statistics (count + 1, b) of some blocks as observed and under permutations, and those under flips.

    One element serves all groups, layers and roles with rows of one kind and number: these are a part of all that the
    null allows, and a test under a part of them is exact as well.
    """
    permuted, flipped = np.empty((2, count + 1, len(blocks)))
    kinds: dict[tuple[str, int], list[int]] = {}
    for column, one in enumerate(blocks):
        kinds.setdefault((one.permuted, one.written.shape[1]), []).append(column)
    for (kind, rows), columns in kinds.items():
        flips = {column: rows >= FLIPPED and blocks[column].flips for column in columns}
        sizes = np.sqrt(np.sum([blocks[column].energies for column in columns], axis=0))
        free = all(blocks[column].flips for column in columns)
        sets = [np.arange(rows)] if free else strata_of(sizes[None])
        for part, orders, signs in _elements(f"{kind} {rows}", sets, count, seed):
            kept = np.arange(rows)[None] if free else orders
            for column, flip in flips.items():
                permuted[part, column] = flipped[part, column] = _ratios(blocks[column], orders)
                if flip:
                    flipped[part, column] = _ratios(blocks[column], kept, signs)
    return permuted, flipped


def _elements(kind: str, sets: Sequence[Numbers], count: int, seed: int) -> Iterator[tuple[slice, Numbers, Array]]:
    """Yield some elements at a time, permutations within sets of rows and signs of the rows: first the neutral one.

    The raw random words are the same on every platform.
    """
    rows = sum(map(len, sets))
    yield slice(1), np.arange(rows)[None], np.ones((1, rows), np.float32)
    permuting, flipping = (random_stream(f"adapter {half} {kind} {seed}") for half in ("permutations", "signs"))
    for start in range(1, count + 1, BATCH):
        drawn = min(BATCH, count + 1 - start)
        signs = 1 - 2 * (flipping.random_raw(drawn * rows).reshape(drawn, rows) & 1).astype(np.float32)
        yield slice(start, start + drawn), orders_within(sets, drawn, permuting), signs


def _ratios(one: Block, orders: Numbers, signs: Array | None = None) -> Vector:
    """Return the statistic of a block under some permutations of its rows (b, n), and signs (b, n), over a constant.

    Means over rows are removed from `through`. Permutations leave them as they are, so that they are removed from
    `written` too; signs do not, so that they have to be multiplied before.
    """
    groups, n, _ = one.written.shape
    written = one.centred if signs is None else one.written
    squares = [np.sum(np.square(side, dtype=np.float64), axis=axis) for side, axis in ((written, 2), (one.through, 1))]
    expected = float(np.multiply(*(side.sum(axis=1) for side in squares)).sum()) / n
    sums = np.zeros(len(orders if signs is None else signs))
    for group in range(groups):
        # All permutations are one large product, which BLAS computes many times as fast as many narrow ones.
        moved = written[group].take(orders.T, axis=0)
        moved = moved if signs is None else moved * signs.T[..., None]
        products = (one.through[group] @ moved.reshape(n, -1)).reshape(-1, len(sums), moved.shape[2])
        sums += np.einsum("kbq,kbq->b", products, products, dtype=np.float64)
        sums -= squares[0][group][orders] @ squares[1][group]
    return sums / expected if expected > 0 else np.ones(len(sums))


def _above(values: Vector) -> float:
    deviation = float(values[1:].std())
    return float(values[0] - values[1:].mean()) / deviation if deviation > 0 else 0.0


def _p_value(values: Vector) -> float:
    """Return (1 + #{others >= observed}) / (n + 1); what rounding alone separates counts as equal."""
    return (1 + not_below(values[0] - ROUNDING * max(1.0, abs(values[0])), values[1:])) / len(values)
