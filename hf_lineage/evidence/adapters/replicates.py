"""Replicates: the statistics of an adapter's blocks under permutations of their rows, and under flips of signs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hf_lineage.evidence.adapters.blocks import Block
from hf_lineage.evidence.nulls import Numbers, Scale, not_below, orders_within, strata_of
from hf_lineage.signature import Array, Vector, random_stream

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
        return {role: Scale.estimate(values).standardised(values) for role, values in sums.items()}

    @property
    def p_value(self) -> float:
        """The p-value of the largest statistic of all roles under the same elements (Westfall and Young 1993).

        One of the statistics is the sum over all roles: several weak traces together make a strong one.
        """
        each = np.array(list(self.by_role.values()))
        total = each.sum(axis=0)
        return _p_value(np.maximum(each.max(axis=0), Scale.estimate(total).standardised(total)))

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
