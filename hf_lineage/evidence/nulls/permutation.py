"""The permutation null: the scores that independent models reach, estimated from these two models alone.

Initialisation and the usual training steps treat all residual coordinates alike, so the coordinates of an independent B
may be permuted by any P, the same in every layer, without changing the distribution of (A, B).
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.nulls import p_values as permutations
from hf_lineage.evidence.nulls.p_values import Draws, not_below
from hf_lineage.evidence.paths import assign, gate
from hf_lineage.signature import Array, PathSignature, Vector, random_stream

MAXIMUM = "Westfall and Young 1993"
"""The correction for several paths by the largest statistic, as reports name it."""
NOT_EXCHANGEABLE = (
    "the architecture does not treat all residual coordinates alike, so the permutation null does not hold; "
    "name independent models with --null"
)
FEWEST_COORDINATES = 8
"""Fewer coordinates have too few permutations for a small p-value."""
BATCHES = (32, 256)
"""Permutations drawn at first, and at most at a time: a million of them would take gigabytes. Each batch is as large as
all before it together, for most sequences of independent models end after some forty."""
TILE = 16
"""Permutations whose scores a thread computes at a time."""
GATHERED = 2**19
"""Numbers that a thread gathers at a time: as many as the processor's cache holds."""


@dataclass(frozen=True)
class PermutationNull:
    """The score on the test coordinates, as observed and under n permutations of B."""

    observed: float
    scores: Vector
    """(n,): the score under each permutation."""
    seed: int
    coordinates: int
    """m, how many residual coordinates were permuted."""
    first: int | None = None
    """The number drawn at first by the rule in `permutations`; None if a fixed number was drawn."""
    not_exchangeable: bool = False
    """Whether the architecture treats some residual coordinates differently from others."""
    by_maximum: float | None = None
    """The p-value corrected for the paths that are tested by the same permutations; None for a path alone."""
    part: float = 1.0
    """Which part of all paths these permutations test."""

    name = "permutation"

    @property
    def p_over_paths(self) -> float:
        """The p-value corrected for all paths: by the maximum, and where some are tested otherwise by Bonferroni."""
        return min(1.0, (self.p_value if self.by_maximum is None else self.by_maximum) / self.part)

    @property
    def correction(self) -> str:
        """How the p-value is corrected for several paths."""
        return MAXIMUM if self.part == 1 else f"{MAXIMUM}, Bonferroni"

    @property
    def objection(self) -> str:
        """Why this null cannot decide a verdict; empty if it can."""
        if self.not_exchangeable:
            return NOT_EXCHANGEABLE
        few = self.coordinates < FEWEST_COORDINATES
        return f"{self.coordinates} residual coordinates are too few to permute" if few else ""

    @property
    def admits(self) -> bool:
        """Always: where another null decides, this one does not object to RELATED."""
        return True

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""
        low, high = self.range
        return (
            f"{self.observed:.4f} on {self.coordinates} test coordinates; under permutation, independent models of "
            f"this shape score {low:.3f} to {high:.3f} in 98 of 100 cases, and {self.scores.min():.4f} to "
            f"{self.scores.max():.4f} in all {len(self.scores)}"
        )

    @property
    def reached(self) -> int:
        """How many permutations have at least the observed score."""
        return not_below(self.observed, self.scores)

    @property
    def stopped(self) -> permutations.Stop | None:
        """Why no more permutations were drawn; None where their number was fixed."""
        return None if self.first is None else permutations.stop(len(self.scores), self.reached, self.first)

    @property
    def p_value(self) -> float:
        """(1 + #{permuted score >= observed}) / (n + 1), or that of `permutations`: exact whatever the distribution."""
        if self.first is None:
            return (1 + self.reached) / (len(self.scores) + 1)
        return permutations.p_value(len(self.scores), self.reached, self.first)

    @property
    def z(self) -> float:
        """How many standard deviations of the null the observed score lies above its mean; a picture, not a test."""
        deviation = float(self.scores.std())
        return (self.observed - float(self.scores.mean())) / deviation if deviation > 0 else 0.0

    @property
    def effect(self) -> float:
        """(observed - mean) / (1 - mean): the score less what permutations reach, 0 by chance and 1 for equal models.

        Corrected for chance as the adjusted Rand index is (Hubert and Arabie 1985). The test coordinates hold no error
        of a sketch, and what the pairing of layers gains by choosing is in both terms.
        """
        mean = float(self.scores.mean())
        return (self.observed - mean) / (1 - mean) if mean < 1 else 0.0

    @property
    def range(self) -> tuple[float, float]:
        """The scores between which 98 of 100 permutations lie: what "about 0" means for this pair."""
        low, high = np.quantile(self.scores, (0.01, 0.99)).tolist()
        return low, high


def permutation_null(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> PermutationNull:
    """Return the null of the lineage score on the test coordinates, alignment and gate included.

    The gate stays as it is: trace and norm do not change under a permutation.
    """
    observed, *scores = _scores(a, b, permutations, seed)
    return PermutationNull(observed, np.array(scores), seed, a.corner.shape[1])


def sequential_nulls(
    pairs: Mapping[str, tuple[PathSignature, PathSignature]], first: int, seed: int
) -> dict[str, PermutationNull]:
    """Return the same null of each path, of as many permutations as the rule of `permutations` asks for.

    All paths have as many test coordinates, and the same permutations serve all of them: every path has the null that
    it would have alone, and `by_maximum` in addition.
    """
    count = permutations.most(first) + (permutations.SCALE if len(pairs) > 1 else 0)
    with contextlib.ExitStack() as stack:
        draws, nulls = dict[str, Draws](), dict[str, PermutationNull]()
        for path, (a, b) in pairs.items():
            drawn = draws[path] = Draws(stack.enter_context(contextlib.closing(_scores(a, b, count, seed))))
            scores = permutations.sequence(drawn.observed, drawn.after(0), first)
            nulls[path] = PermutationNull(drawn.observed, np.array(scores), seed, a.corner.shape[1], first)
        if len(pairs) == 1:
            return nulls
        corrected = permutations.step_down(draws, {path: null.p_value for path, null in nulls.items()}, first)
    return {path: replace(null, by_maximum=corrected[path]) for path, null in nulls.items()}


def _scores(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> Generator[float]:
    """The observed score, and then the score under each permutation in the order in which they are drawn."""
    size, a_units, b_units = a.corner.shape[1], _units(a.corner), _units(b.corner)
    # Layers come last: a permutation then moves whole rows of B, one for each pair of coordinates.
    moved = np.ascontiguousarray(b_units.transpose(1, 2, 0)).reshape(size * size, -1)
    if a.by_number:
        scores = functools.partial(_by_number, np.ascontiguousarray(a_units.transpose(1, 2, 0)), moved)
    else:
        gates, alike = gate(a, b), a.alike(b)
        scores = functools.partial(_assigned, a_units.transpose(1, 0, 2), moved, gates, alike)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for orders in _orders(size, permutations, seed):
            tiles = (orders[start : start + TILE] for start in range(0, len(orders), TILE))
            for tile in pool.map(scores, tiles):
                yield from tile


def _units(blocks: Array) -> Array:
    """Every block (L, m, m) over its Frobenius norm; a zero block stays zero."""
    norms = np.linalg.norm(blocks, axis=(1, 2), keepdims=True)
    units: Array = np.divide(blocks, norms, out=np.zeros_like(blocks), where=norms > 0)
    return units


def _by_number(a_units: Array, b_units: Array, orders: NDArray[np.int64]) -> list[float]:
    """The score for n permutations P (n, m) where every layer is compared with that of the same number alone.

    A's blocks come as (m, m, L), B's as (m², L). Each sum is made in the same order whatever else is in the batch.
    """
    layers = a_units.shape[2]
    sums = np.zeros(len(orders), dtype=np.float32)
    for part, permuted in _gathered(b_units, orders):
        sums += np.vecdot(permuted.reshape(len(orders), -1), a_units[part].ravel())
    return [float(total) / layers for total in sums]


def _gathered(b_units: Array, orders: NDArray[np.int64]) -> Iterator[tuple[slice, Array]]:
    """Some rows of the blocks at a time, and B's blocks there under each of n permutations, (n, rows, m, M)."""
    size = orders.shape[1]
    rows = max(1, GATHERED // (TILE * size * b_units.shape[1]))
    for start in range(0, size, rows):
        part = slice(start, start + rows)
        yield part, b_units.take(orders[:, part, None] * size + orders[:, None, :], axis=0)


def _assigned(
    a_units: Array, b_units: Array, gates: Vector, alike: NDArray[np.bool_], orders: NDArray[np.int64]
) -> list[float]:
    """The score for n permutations P (n, m) where layers are assigned to each other anew under each."""
    similarities = _similarities(a_units, b_units, orders) * alike
    return [float(similarity[assign(similarity * gates)].mean()) for similarity in similarities]


def _similarities(a_units: Array, b_units: Array, orders: NDArray[np.int64]) -> Array:
    """⟨A_i, P B_j Pᵀ⟩ for n permutations P (n, m), as (n, L, M); A's blocks come as (m, L, m), B's as (m², M).

    Each product is small enough for BLAS to stay on the calling thread, and each is summed in the same order whatever
    else is in the batch, so that a permutation that changes nothing gives the observed score to the last bit.
    """
    similarities = np.zeros((len(orders), a_units.shape[1], b_units.shape[1]), dtype=np.float32)
    for part, permuted in _gathered(b_units, orders):
        similarities += (a_units[part] @ permuted).sum(axis=1)
    return similarities


def _orders(size: int, count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The identity and then `count` permutations, (n, size) with n by BATCHES.

    They are made from raw random words, so that one seed gives the same ones on every platform.
    """
    yield np.arange(size)[None]
    stream = random_stream(f"permutations {seed}")
    (first, most), drawn = BATCHES, 0
    while drawn < count:
        batch = min(max(first, drawn), most, count - drawn)
        yield np.argsort(stream.random_raw(batch * size).reshape(-1, size), axis=1, kind="stable")
        drawn += batch
