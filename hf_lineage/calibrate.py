"""Calibration: how large a score gets between models that share nothing.

The permutation null needs no other model. Initialisation and the usual training steps treat all residual coordinates
alike, so an independent B may be relabelled by any permutation P, the same in every layer, without changing the
distribution of (A, B). The empirical null is the paper's: scores against models known to be independent.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from hf_lineage import sequence
from hf_lineage.comparison import assign, gate
from hf_lineage.errors import RegistryError
from hf_lineage.recipe import Array, Vector, random_stream
from hf_lineage.registry import registry_root
from hf_lineage.signature import PathSignature

BATCH = 256
"""Relabellings drawn at a time: a million of them would take gigabytes, and a sequence may end after 40."""
TILE = 16
"""Relabellings that a thread tries at a time."""
GATHERED = 2**19
"""Numbers that a thread relabels at a time: what the cache holds."""


@dataclass(frozen=True)
class PermutationNull:
    """The score on the test coordinates, as it is and under n permutations of B."""

    observed: float
    scores: Vector
    """(n,)"""
    seed: int
    coordinates: int
    """m, how many residual coordinates were permuted."""
    first: int | None = None
    """How many permutations were to be drawn at first, by the rule of `sequence`; None: a fixed number was drawn."""

    @property
    def reached(self) -> int:
        """How many permutations have at least the observed score."""
        # Counted by what lies below: a score that is no number is reached by all, and never significant.
        return len(self.scores) - int(np.sum(self.scores < self.observed))

    @property
    def stopped(self) -> sequence.Stop | None:
        """Why no more permutations were drawn; None where their number was fixed."""
        return None if self.first is None else sequence.stop(len(self.scores), self.reached, self.first)

    @property
    def p_value(self) -> float:
        """(1 + #{permuted score >= observed}) / (n + 1), or that of `sequence`: exact whatever the distribution."""
        if self.first is None:
            return (1 + self.reached) / (len(self.scores) + 1)
        return sequence.p_value(len(self.scores), self.reached, self.first)

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
        """Between which scores 98 of 100 permutations lie: what "about 0" means for this pair."""
        low, high = np.quantile(self.scores, (0.01, 0.99)).tolist()
        return low, high


@dataclass(frozen=True)
class EmpiricalNull:
    """Scores of the base against named models that are independent of it (equation 7)."""

    scores: Mapping[str, float]
    source: str
    tests: int = 1
    """How many paths are judged by such scores: p-values are multiplied with it (Bonferroni)."""

    @property
    def threshold(self) -> float:
        """τ, the largest score an independent model reached."""
        return max(self.scores.values())

    def p_value(self, score: float) -> float:
        """Return the conformal p-value (#{score_j >= score} + 1) / (n + 1) times `tests`, 1 at most."""
        reached = sum(other >= score for other in self.scores.values())
        return min(1.0, self.tests * (reached + 1) / (len(self.scores) + 1))

    def too_few(self, alpha: float) -> str:
        """Return why these scores alone cannot decide at this level, empty if there are enough of them."""
        needed = math.ceil(self.tests / alpha - 1e-9) - 1
        if len(self.scores) >= needed:
            return ""
        return (
            f"{len(self.scores)} independent model(s) cannot show p <= {alpha:g}, which takes at least {needed}; "
            "name more of them with --null"
        )


class PublishedNull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of `registry/nulls`: scores that somebody published, with their source."""

    reference: str
    path: str
    recipe: str
    source: str
    scores: dict[str, float]
    remark: str = ""


def permutation_null(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> PermutationNull:
    """Return the null of the lineage score on the test coordinates, alignment and gate included.

    The gate stays as it is: trace and norm do not change under a permutation.
    """
    observed, *scores = _scores(a, b, permutations, seed)
    return PermutationNull(observed, np.array(scores), seed, a.corner.shape[1])


def sequential_null(a: PathSignature, b: PathSignature, first: int, seed: int) -> PermutationNull:
    """Return the same null of as many permutations as the rule of `sequence` asks for, the first of all in order."""
    with contextlib.closing(_scores(a, b, sequence.most(first), seed)) as found:
        observed, reached = next(found), 0
        scores: list[float] = []
        while not (scores and sequence.stop(len(scores), reached, first)):
            scores.append(next(found))
            reached += not scores[-1] < observed
    return PermutationNull(observed, np.array(scores), seed, a.corner.shape[1], first)


def _scores(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> Generator[float]:
    """The score as it is and then under each permutation, in the order in which they are drawn."""
    size, gates, alike = a.corner.shape[1], gate(a, b), a.alike(b)
    # Layers last: relabelling then moves whole rows of B, one for each pair of coordinates.
    theirs = np.ascontiguousarray(_units(b.corner).transpose(1, 2, 0)).reshape(size * size, -1)
    similarities = functools.partial(_similarities, _units(a.corner).transpose(1, 0, 2), theirs)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for orders in _orders(size, permutations, seed):
            for found in pool.map(similarities, _tiles(orders)):
                yield from (_score(similarity * alike, gates) for similarity in found)


def _units(blocks: Array) -> Array:
    """Every block (L, m, m) over its Frobenius norm; a zero block stays zero."""
    norms = np.linalg.norm(blocks, axis=(1, 2), keepdims=True)
    units: Array = np.divide(blocks, norms, out=np.zeros_like(blocks), where=norms > 0)
    return units


def _similarities(ours: Array, theirs: Array, orders: NDArray[np.int64]) -> Array:
    """⟨A_i, P B_j Pᵀ⟩ for n relabellings P (n, m), as (n, L, M); A's blocks come as (m, L, m), B's as (m², M).

    Each product is small enough for BLAS to leave it to the thread that asks, and each is summed in the same order
    whatever stands beside it, so that a relabelling that changes nothing gives the observed score to the last bit.
    """
    (size, layers, _), others = ours.shape, theirs.shape[1]
    rows = max(1, GATHERED // (TILE * size * others))
    found = np.zeros((len(orders), layers, others), dtype=np.float32)
    for start in range(0, size, rows):
        part = slice(start, start + rows)
        relabelled = orders[:, part, None] * size + orders[:, None, :]
        found += (ours[part] @ theirs.take(relabelled, axis=0)).sum(axis=1)
    return found


def _score(similarity: Array, gates: Vector) -> float:
    return float(similarity[assign(similarity * gates)].mean())


def _orders(size: int, count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """No relabelling and then `count` of them, at most BATCH (n, size) at a time.

    They come from raw random words, the same on every platform for one seed.
    """
    yield np.arange(size)[None]
    stream = random_stream(f"permutations {seed}")
    for start in range(0, count, BATCH):
        words = stream.random_raw(min(BATCH, count - start) * size).reshape(-1, size)
        yield np.argsort(words, axis=1, kind="stable")


def _tiles(orders: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (orders[start : start + TILE] for start in range(0, len(orders), TILE))


def published_null(name: str, root: Path | None = None) -> PublishedNull | None:
    """Return the published null of this name, None if there is none; raise RegistryError if its file is malformed."""
    file = (root or registry_root()) / "nulls" / f"{Path(name).name}.yaml"
    if Path(name).name != name or not file.is_file():
        return None
    try:
        return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), PublishedNull)
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"nulls/{file.name}: {error}") from None
