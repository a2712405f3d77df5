"""The trace that a base leaves in an adapter trained on it, and an exact test for it.

A LoRA adds B A to a matrix. B is made of gradients of the base, and the gradient of a hidden unit passes through the
matrix that writes this unit; that of a residual coordinate comes from the matrices that read the stream afterwards. If
the adapter was trained on an independent base, its rows may be permuted within their exchangeable groups without
changing the distribution of the pair: hidden units, dimensions of a value head, residual coordinates.

The statistic is ‖P U Σ^½‖² with B A = U Σ Vᵀ and P the matrix of the base that the gradient passed through. It depends
on the product alone: neither a change of basis between the factors nor columns of B that A never uses can move it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.adapters.blocks import Block
from hf_lineage.evidence.nulls import Scale, not_below
from hf_lineage.signature import Vector, random_stream

ROUNDING = 1e-6
"""Statistics that differ by less than this part are equal: they are sums in float32."""
LEAST = {"value": 1.2, "output": 0.5, "down": 1.1, "up": 0.5, "gate": 0.0, "query": 2.5, "key": 2.5, "latent": 0.0}
"""Role -> the least z of adapters on their own base, over the root of the number of directions, as measured by
`ours:adapters` of the benchmarks; 0 if it was not measured."""
WHOLE, FADED = 0.1, 0.3
"""Up to the first relative size of what is added, a trace is whole; at the second size nothing is left of it.

Long training moves the weights so far that the gradients are no longer those of the base that is compared.
"""
BATCH = 64
"""Permutations that are drawn at a time, to bound the memory."""


@dataclass(frozen=True)
class Trace:
    """The test of one adapter against one base."""

    roles: tuple[str, ...]
    layers: tuple[int, ...]
    """The role and the layer of every block, (b,)."""
    ratios: Vector
    """(n + 1, b): the statistic of every block over its mean, first as observed and then under each permutation."""
    directions: Vector
    """The effective number of directions of every block, (b,)."""
    sizes: Vector
    """The size of what every block adds, relative to the base, (b,)."""
    seed: int
    analyses: int = 1
    """How many interim analyses there are, for which p is corrected (Bonferroni)."""
    calibrated: bool = True
    """Whether the power was measured on adapters like this one."""
    spent: float = 0.0
    """How much is added to p because the test could have ended after fewer permutations."""

    @property
    def permutations(self) -> int:
        """How many permutations were drawn."""
        return len(self.ratios) - 1

    def power(self, alpha: float) -> float:
        """Return the probability of p <= alpha, at least, if the adapter was trained on this base, as calibrated."""
        return NormalDist().cdf(self.predicted - self.critical(alpha)) if self.calibrated else 0.0

    def effect_of(self, alpha: float, power: float) -> float:
        """Return the effect with which a test has this probability of p <= alpha."""
        return self.critical(alpha) + NormalDist().inv_cdf(power)

    def critical(self, alpha: float) -> float:
        """Return the effect at which p reaches alpha if the statistics are normally distributed."""
        several = len(self.by_role) > 1  # the sum over all roles is one more statistic
        return -NormalDist().inv_cdf(alpha / (len(self.by_role) + several) / self.analyses)

    @functools.cached_property
    def predicted(self) -> float:
        """The least effect of an adapter of this rank and size in these matrices, trained on this base."""
        left = np.clip((FADED - self.sizes) / (FADED - WHOLE), 0.0, 1.0)
        shown = self.directions * left**2
        reached = np.array([LEAST[role] * np.sqrt(shown[self._columns_of(role)].sum()) for role in self.by_role])
        return float(max(reached.max(), reached.sum() / np.sqrt(len(reached))))

    @functools.cached_property
    def effect(self) -> float:
        """How many standard deviations above the mean of its permutations the adapter lies, as in half its matrices.

        It is the largest effect of one projection, or that of all together. A projection counts no more than the median
        of its matrices gives, so a trace in a few of many matrices gains nothing.
        """
        each = np.array([self._effect_of(role) for role in self.by_role])
        total = _above(np.sum(list(self.by_role.values()), axis=0))
        return float(max(each.max(), min(total, each.sum() / np.sqrt(len(each)))))

    def _effect_of(self, role: str) -> float:
        zs = self.z_of_blocks[self._columns_of(role)]
        return min(self.z_of(role), float(np.quantile(zs, 0.5, method="lower") * np.sqrt(len(zs))))

    @functools.cached_property
    def by_role(self) -> Mapping[str, Vector]:
        """By role the sum over its blocks, (n + 1,), standardised over the observed value and the permuted ones.

        The mean and the deviation include the observed value, so that all values contribute equally to them.
        """
        sums = {role: self.ratios[:, self._columns_of(role)].sum(axis=1) for role in dict.fromkeys(self.roles)}
        return {role: Scale.estimate(values).standardised(values) for role, values in sums.items()}

    @property
    def p_value(self) -> float:
        """The p-value of the largest statistic of all roles under the same permutations (Westfall and Young 1993).

        One of the statistics is the sum over all roles: several weak traces together make a strong one.
        """
        each = np.array(list(self.by_role.values()))
        total = each.sum(axis=0)
        largest = np.maximum(each.max(axis=0), Scale.estimate(total).standardised(total))
        return min(1.0, self.analyses * _p_value(largest) + self.spent)

    def p_of(self, role: str) -> float:
        """Return the p-value of one role by itself, without any correction."""
        return _p_value(self.by_role[role])

    def z_of(self, role: str) -> float:
        """Return how many standard deviations of its permutations one role lies above their mean."""
        return _above(self.ratios[:, self._columns_of(role)].sum(axis=1))

    @functools.cached_property
    def z_of_blocks(self) -> Vector:
        """(b,): the same for every block; a picture of where the trace is, not a test."""
        return np.array([_above(column) for column in self.ratios.T])

    def _columns_of(self, role: str) -> NDArray[np.int64]:
        return np.flatnonzero(np.array(self.roles) == role)


def trace(blocks: Sequence[Block], permutations: int, seed: int, analyses: int = 1) -> Trace:
    """Return the test over some blocks, each of which has a product that is not zero."""
    ratios = np.empty((permutations + 1, len(blocks)))
    row = 0
    for orders in _orders({(one.permuted, one.written.shape[1]) for one in blocks}, permutations, seed):
        count = len(next(iter(orders.values())))
        for column, one in enumerate(blocks):
            ratios[row : row + count, column] = _ratios(one, orders[one.permuted, one.written.shape[1]])
        row += count
    return Trace(
        tuple(one.role for one in blocks),
        tuple(one.layer for one in blocks),
        ratios,
        np.array([one.directions for one in blocks]),
        np.array([one.size for one in blocks]),
        seed,
        analyses,
    )


def _ratios(one: Block, orders: NDArray[np.int64]) -> Vector:
    """The statistic of a block under some permutations of its rows (b, n), over its mean under all of them."""
    groups, n, _ = one.written.shape
    sizes = (np.sum(np.square(side, dtype=np.float64), axis=(1, 2)) for side in (one.written, one.through))
    expected = float(np.multiply(*sizes).sum()) / (n - 1)
    sums = np.zeros(len(orders))
    for group in range(groups):
        # All permutations are one large product, which BLAS computes many times as fast as many narrow ones.
        permuted = one.written[group].take(orders.T, axis=0)
        products = (one.through[group] @ permuted.reshape(n, -1)).reshape(-1, len(orders), permuted.shape[2])
        sums += np.einsum("kbq,kbq->b", products, products, dtype=np.float64)
    return sums / expected if expected > 0 else np.ones(len(orders))


def _orders(kinds: set[tuple[str, int]], count: int, seed: int) -> Iterator[dict[tuple[str, int], NDArray[np.int64]]]:
    """The identity and then `count` permutations of every kind of rows, at most BATCH at a time.

    One permutation serves all groups, layers and roles: these are a part of all permutations that the null allows, and
    a test under a part of them is exact as well. The raw random words are the same on every platform.
    """
    yield {kind: np.arange(kind[1])[None] for kind in kinds}
    streams = {kind: random_stream(f"adapter permutations {kind[0]} {kind[1]} {seed}") for kind in sorted(kinds)}
    for start in range(0, count, BATCH):
        drawn = min(BATCH, count - start)
        yield {
            kind: np.argsort(stream.random_raw(drawn * kind[1]).reshape(drawn, -1), axis=1)
            for kind, stream in streams.items()
        }


def _above(values: Vector) -> float:
    deviation = float(values[1:].std())
    return float(values[0] - values[1:].mean()) / deviation if deviation > 0 else 0.0


def _p_value(values: Vector) -> float:
    """(1 + #{permuted >= observed}) / (n + 1); what rounding alone separates counts as equal."""
    return (1 + not_below(values[0] - ROUNDING * abs(values[0]), values[1:])) / len(values)
