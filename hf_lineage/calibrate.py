"""Calibration: how large a score gets between models that share nothing.

The permutation null needs no other model. Initialisation and the usual training steps treat all residual coordinates
alike, so an independent B may be relabelled by any permutation P, the same in every layer, without changing the
distribution of (A, B). The empirical null is the paper's: scores against models known to be independent.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from hf_lineage.comparison import assign, gate
from hf_lineage.errors import RegistryError
from hf_lineage.registry import registry_root
from hf_lineage.signature import Array, PathSignature, Vector, random_stream

BATCH = 1024
"""Relabellings drawn at a time: a million of them would take gigabytes."""
TILE = 16
"""Relabellings that a thread tries at a time."""
GATHERED = 2**19
"""Numbers that a thread relabels at a time: what the cache holds."""


@dataclass(frozen=True)
class PermutationNull:
    """The score on the test coordinates, as it is and under n relabellings of B."""

    observed: float
    scores: Vector
    """(n,)"""
    seed: int
    coordinates: int
    """m, how many residual coordinates were permuted."""

    @property
    def p_value(self) -> float:
        """(1 + #{permuted score >= observed}) / (n + 1): exact whatever the distribution, at least 1 / (n + 1)."""
        return (1 + int(np.sum(self.scores >= self.observed))) / (len(self.scores) + 1)

    @property
    def z(self) -> float:
        """How many standard deviations of the null the observed score lies above its mean; a picture, not a test."""
        deviation = float(self.scores.std())
        return (self.observed - float(self.scores.mean())) / deviation if deviation > 0 else 0.0


@dataclass(frozen=True)
class EmpiricalNull:
    """Scores of the base against named models that are independent of it (equation 7)."""

    scores: Mapping[str, float]
    source: str

    @property
    def threshold(self) -> float:
        """τ, the largest score an independent model reached."""
        return max(self.scores.values())

    def p_value(self, score: float) -> float:
        """Return the conformal p-value (#{score_j >= score} + 1) / (n + 1), never below 1 / (n + 1)."""
        return (sum(other >= score for other in self.scores.values()) + 1) / (len(self.scores) + 1)


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
    size, gates, alike = a.corner.shape[1], gate(a, b), a.alike(b)
    # Layers last: relabelling then moves whole rows of B, one for each pair of coordinates.
    theirs = np.ascontiguousarray(_units(b.corner).transpose(1, 2, 0)).reshape(size * size, -1)
    similarities = functools.partial(_similarities, _units(a.corner).transpose(1, 0, 2), theirs)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        observed, *scores = (
            _score(similarity * alike, gates)
            for orders in _orders(size, permutations, seed)
            for found in pool.map(similarities, _tiles(orders))
            for similarity in found
        )
    return PermutationNull(observed, np.array(scores), seed, size)


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
