"""The permutation null: the scores that independent models reach, estimated from these two models alone.

Initialisation and training treat residual coordinates alike, and do not know their signs. So those of an independent B
may be permuted by any P, or flipped by any D = diag(±1), the same in every layer: (A, B) keeps its distribution. Either
half of this group gives an exact p-value: permutations where all coordinates mean the same, signs also where a
publisher sorted, padded or rotated them. The larger one is valid wherever either assumption holds, so it decides.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.comparison import assign, gate
from hf_lineage.evidence.p_values import SCALE, Draws, EmpiricalNull, most, not_below, sequence, step_down
from hf_lineage.evidence.p_values import p_value as p_value_of_draws
from hf_lineage.signature.recipe import Array, Vector, random_stream
from hf_lineage.signature.values import PathSignature

NOT_EXCHANGEABLE = (
    "the architecture does not treat all residual coordinates alike, so the permutation null does not hold; "
    "name independent models with --null"
)
FEWEST_COORDINATES = 8  # fewer coordinates have too few permutations for a small p-value
BATCHES = (32, 128)  # elements drawn at first, and at most at a time: most sequences of independent models end at forty
EPSILON = np.float32(1e-7)  # a block whose means and identity leave no more of its square has nothing else to compare
TILES = {"permutations": 16, "signs": BATCHES[1]}  # elements of each half whose scores a thread computes at a time
SMALL = 2**15  # numbers of A's blocks below which a tile takes no longer than handing it to a thread
GATHERED = 2**17  # numbers that a thread gathers at a time: as many as the processor's cache holds
Cosines = Callable[[NDArray[np.int64]], Array]  # of n elements (n, m), of A's layers and B's: (n, L, M), or by number


@dataclass(frozen=True)
class TriedElements:
    """The score on the test coordinates, as observed and under elements of one half of the group."""

    observed: float
    scores: Vector  # (n,): the score under each element
    first: int | None = None  # the number drawn at first by the rule in `p_values`; None if a fixed number was drawn

    @classmethod
    def draw(cls, draws: Draws, first: int) -> "TriedElements":
        """Return as many scores as the rule of `p_values` asks for."""
        return cls(draws.observed, sequence(draws.observed, draws.after(0), first), first)

    @property
    def reach_count(self) -> int:
        """The number of elements with at least the observed score."""
        return not_below(self.observed, self.scores)

    @property
    def p_value(self) -> float:
        """(1 + reached) / (n + 1), or that of `p_values`: exact whatever the distribution of the scores."""
        if self.first is None:
            return (1 + self.reach_count) / (len(self.scores) + 1)
        return p_value_of_draws(len(self.scores), self.reach_count, self.first)


@dataclass(frozen=True)
class PermutationNull:
    """The score on the test coordinates beside those that independent models reach."""

    permuted: TriedElements
    flipped: TriedElements
    seed: int
    coordinates: int  # m, the number of residual coordinates that were permuted and flipped
    not_exchangeable: bool = False  # whether the architecture treats some residual coordinates differently from others
    by_maximum: float | None = None  # p corrected for the paths that the same permutations test; None for a path alone
    part: float = 1.0  # part of all paths that these permutations test

    name = "permutation"

    @property
    def p_over_paths(self) -> float:
        """The p-value corrected for all paths: by the maximum, and where some are tested otherwise by Bonferroni."""
        return min(1.0, (self.p_value if self.by_maximum is None else self.by_maximum) / self.part)

    @property
    def correction(self) -> str:
        """The name of the correction of the p-value for several paths, as reports name it."""
        return f"Westfall and Young 1993{'' if self.part == 1 else ', Bonferroni'}"

    @property
    def objection(self) -> str:
        """Why this null cannot decide a verdict; empty if it can."""
        if self.not_exchangeable:
            return NOT_EXCHANGEABLE
        few = self.coordinates < FEWEST_COORDINATES
        return f"{self.coordinates} residual coordinates are too few to permute" if few else ""

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""
        low, high = self.range
        return (
            f"{self.observed:.4f} on {self.coordinates} test coordinates; under permutation, independent models of "
            f"this shape score {low:.3f} to {high:.3f} in 98 of 100 cases, and {self.scores.min():.4f} to "
            f"{self.scores.max():.4f} in all {len(self.scores)}"
        )

    @property
    def observed(self) -> float:
        """The score on the test coordinates."""
        return self.permuted.observed

    @property
    def scores(self) -> Vector:
        """(n,): the score under each permutation."""
        return self.permuted.scores

    @property
    def p_value(self) -> float:
        """The larger p-value of the two halves of the group."""
        return max(self.permuted.p_value, self.flipped.p_value)

    @property
    def z(self) -> float:
        """Standard deviations of the null by which the observed score lies above its mean; a picture, not a test."""
        deviation = float(self.scores.std())
        return (self.observed - float(self.scores.mean())) / deviation if deviation > 0 else 0.0

    @property
    def effect(self) -> float:
        """(observed - mean) / (1 - mean): the score less what the group reaches, 0 by chance and 1 for equal models."""
        # Corrected for chance as the adjusted Rand index is (Hubert and Arabie 1985). The test coordinates hold no
        # error of a sketch, and what the pairing of layers gains by choosing is in both terms.
        mean = max(float(self.scores.mean()), float(self.flipped.scores.mean()))
        return (self.observed - mean) / (1 - mean) if mean < 1 else 0.0

    @property
    def range(self) -> tuple[float, float]:
        """The scores between which 98 of 100 permutations lie: what "about 0" means for this pair."""
        low, high = np.quantile(self.scores, (0.01, 0.99)).tolist()
        return low, high


Null = PermutationNull | EmpiricalNull  # the distribution of the score of one path between independent models


def _under_permutations(own: Array, fixed: Array, by_number: bool) -> Cosines:
    """Return cosines of blocks gathered anew for every permutation, which leaves their means and norms as they are."""
    # Layers come last, so that a permutation moves whole rows, one for each pair of coordinates. Products are small
    # enough for BLAS to stay on the calling thread. Each is summed in the same order whatever else is in the batch: a
    # permutation that changes nothing gives the observed score to the last bit.
    size, both = own.shape[1], (own, _normalise(fixed))
    # Zeros fill rows up to whole 16 bytes, four numbers, which NumPy gathers several times faster.
    ours, theirs = (np.pad(one, ((0, -len(one) % 4), (0, 0), (0, 0))).reshape(-1, size**2) for one in both)
    by_place, rows = ours.T.copy(), theirs.T.copy()
    step = max(1, GATHERED // (len(theirs) * max(TILES["permutations"], len(ours))))

    def cosines(orders: NDArray[np.int64]) -> Array:
        places = (orders[:, :, None] * size + orders[:, None, :]).reshape(len(orders), -1)
        scratch = np.empty(len(orders) * step * len(theirs), np.float32)
        result = np.zeros((len(orders), *([] if by_number else [len(ours)]), len(theirs)), np.float32)
        for start in range(0, size**2, step):
            some, part = places[:, start : start + step], slice(start, start + step)
            out = scratch[: some.size * len(theirs)].reshape(*some.shape, -1)
            blocks = rows.take(some, axis=0, out=out, mode="clip")  # unlike other modes this one writes in place
            result += np.einsum("nkl,kl->nl", blocks, by_place[part]) if by_number else ours[:, part] @ blocks
        return result[:, : len(own)] if by_number else result[:, : len(own), : len(fixed)]

    return cosines


def _under_signs(own: Array, fixed: Array, by_number: bool) -> Cosines:
    """Return cosines from quadratic forms of the signs s, which give all that a flip changes."""
    # The inner product with A, which is centred, is sᵀ(A ∘ B)s. The squared norm of B is taken without its means and
    # its share along the identity: ‖B‖² - sᵀ(BᵀB + BBᵀ)s / m + (sᵀBs / m)² - (tr B - sᵀBs / m)² / (m - 1). Sums in
    # double precision are then rounded: a flip that changes nothing gives the observed score to the last bit.
    ours, theirs = own.astype(np.float64), fixed.astype(np.float64)
    size, turned = theirs.shape[1], theirs.transpose(0, 2, 1)
    squares, traces = np.einsum("lij,lij->l", theirs, theirs), np.einsum("lii->l", theirs)
    means = turned @ theirs + theirs @ turned

    def cosines(signs: NDArray[np.int64]) -> Array:
        rows = signs.astype(np.float64)

        def quadratic(forms: Vector) -> Vector:
            return np.asarray(np.einsum("fnj,nj->nf", rows @ forms, rows))

        along = quadratic(theirs) / size
        left = squares - quadratic(means) / size + along**2 - (traces - along) ** 2 / max(size - 1, 1)
        norms = np.sqrt(np.maximum(left, EPSILON * squares))
        if by_number:
            return _over(quadratic(ours * theirs), norms)
        return np.stack([_over(quadratic(one * theirs), norms) for one in ours], axis=1)

    return cosines


def _over(inner: Vector, norms: Vector) -> Array:
    return np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0).astype(np.float32)


# Half of the group, by the purpose of its random numbers -> what moves B's blocks (M, m, m) by its elements, given A's
# (L, m, m), centred and of norm 1, and whether layers are paired by number.
HALVES = {"permutations": _under_permutations, "signs": _under_signs}


def scores(half: str, a: PathSignature, b: PathSignature, count: int, seed: int) -> Iterator[Vector]:
    """Yield the observed score, and then, in pieces, that under each element of one half in the order of drawing."""
    cosines, tile = HALVES[half](_normalise(a.corner), b.corner, a.by_number), TILES[half]
    gates, alike = gate(a, b), a.alike(b)

    def of_tile(drawn: NDArray[np.int64]) -> Vector:
        paired = cosines(drawn)
        if not a.by_number:
            similarities = paired * alike
            rows, columns = assign(similarities * gates)
            paired = similarities[np.arange(len(drawn))[:, None], rows, columns]
        return np.asarray(paired.mean(axis=1), np.float64)

    for drawn in elements(half, a.corner.shape[1], count, seed):
        tiles = (drawn[start : start + tile] for start in range(0, len(drawn), tile))
        if a.corner.size < SMALL:
            yield from map(of_tile, tiles)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                yield np.concatenate([*pool.map(of_tile, tiles)])


def _normalise(blocks: Array) -> Array:
    """Return blocks (L, m, m) less the means of rows and columns and the share along the identity, of norm 1 or 0."""
    # LayerNorm removes means, and no permutation moves the identity. A flip moves means, so it is applied before this.
    centred = blocks - blocks.mean(axis=1, keepdims=True)
    centred -= centred.mean(axis=2, keepdims=True)
    size = blocks.shape[1]
    share = np.einsum("lii->l", centred) / max(size - 1, 1)
    centred -= share[:, None, None] * (np.eye(size, dtype=np.float32) - np.float32(1 / size))
    squares, left = (np.einsum("lij,lij->l", one, one) for one in (blocks, centred))
    safe = np.where((left > EPSILON * squares)[:, None, None], centred, np.float32(0))  # else it is rounding
    norms = np.linalg.norm(safe, axis=(1, 2), keepdims=True)
    return np.asarray(np.divide(safe, norms, out=np.zeros_like(safe), where=norms > 0))


def elements(half: str, size: int, count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the neutral element and `count` drawn ones of one half, (n, size) by BATCHES, the same everywhere."""
    flips = half == "signs"
    yield np.ones((1, size), np.int64) if flips else np.arange(size)[None]
    stream, each = random_stream(f"{half} {seed}"), -(-size // 64) if flips else size
    (first, most), drawn = BATCHES, 0
    while drawn < count:
        batch = min(max(first, drawn), most, count - drawn)
        words = stream.random_raw(batch * each).reshape(-1, each)
        if flips:
            bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
            yield bits[:, :size].astype(np.int64) * 2 - 1
        else:
            yield np.argsort(words, axis=1, kind="stable")
        drawn += batch


def permutation_null(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> PermutationNull:
    """Return the null on the test coordinates; the gate stays, since neither half changes trace and norm."""
    drawn = (np.concatenate([*scores(half, a, b, permutations, seed)]) for half in HALVES)
    permuted, flipped = (TriedElements(float(values[0]), values[1:]) for values in drawn)
    return PermutationNull(permuted, flipped, seed, a.corner.shape[1])


def sequential_nulls(
    pairs: Mapping[str, tuple[PathSignature, PathSignature]], first: int, seed: int, at_most: int | None = None
) -> dict[str, PermutationNull]:
    """Return the permutation null of each path, of as many elements as the rule of `p_values` asks for."""
    # Each sequence ends after `at_most` of them, which leaves p exact, only less precise. The same permutations serve
    # all paths: every path has the null that it would have alone, and `by_maximum` in addition.
    several, tried, corrected = len(pairs) > 1, list[dict[str, TriedElements]](), list[dict[str, float]]()
    for half in HALVES:
        count = (at_most or most(first)) + several * SCALE
        draws = {path: Draws(scores(half, a, b, count, seed)) for path, (a, b) in pairs.items()}
        tried.append({path: TriedElements.draw(drawn, first) for path, drawn in draws.items()})
        alone = {path: one.p_value for path, one in tried[-1].items()}
        corrected.append(step_down(draws, alone, first) if several else alone)
    nulls = {}
    for path, (a, _) in pairs.items():
        by_maximum = max(half[path] for half in corrected) if several else None
        nulls[path] = PermutationNull(tried[0][path], tried[1][path], seed, a.corner.shape[1], by_maximum=by_maximum)
    return nulls
