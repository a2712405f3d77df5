"""The permutation null: the scores that independent models reach, estimated from these two models alone.

Initialisation and the usual training steps treat all residual coordinates alike, and do not know their signs. So the
coordinates of an independent B may be permuted by any P, or flipped by any D = diag(±1), the same in every layer: the
distribution of (A, B) stays as it is. Each half of this group gives an exact p-value under its own assumption:
permutations where all coordinates mean the same, signs also where a publisher sorted, padded or rotated them. The
larger of the two is valid wherever either assumption holds, so it decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hf_lineage.evidence.p_values import SCALE, Draws, EmpiricalNull, most, not_below, sequence, step_down
from hf_lineage.evidence.p_values import p_value as p_value_of_draws
from hf_lineage.evidence.symmetry import HALVES, scores
from hf_lineage.signature.recipe import Vector
from hf_lineage.signature.values import PathSignature

MAXIMUM = "Westfall and Young 1993"
"""The correction for several paths by the largest statistic, as reports name it."""
NOT_EXCHANGEABLE = (
    "the architecture does not treat all residual coordinates alike, so the permutation null does not hold; "
    "name independent models with --null"
)
FEWEST_COORDINATES = 8
"""Fewer coordinates have too few permutations for a small p-value."""


@dataclass(frozen=True)
class Tried:
    """The score on the test coordinates, as observed and under elements of one half of the group."""

    observed: float
    scores: Vector
    """(n,): the score under each element."""
    first: int | None = None
    """The number drawn at first by the rule in `p_values`; None if a fixed number was drawn."""

    @classmethod
    def draw(cls, draws: Draws, first: int) -> Tried:
        """Return as many scores as the rule of `p_values` asks for."""
        return cls(draws.observed, sequence(draws.observed, draws.after(0), first), first)

    @property
    def reached(self) -> int:
        """The number of elements with at least the observed score."""
        return not_below(self.observed, self.scores)

    @property
    def p_value(self) -> float:
        """(1 + reached) / (n + 1), or that of `p_values`: exact whatever the distribution of the scores."""
        if self.first is None:
            return (1 + self.reached) / (len(self.scores) + 1)
        return p_value_of_draws(len(self.scores), self.reached, self.first)


@dataclass(frozen=True)
class PermutationNull:
    """The score on the test coordinates beside those that independent models reach."""

    permuted: Tried
    flipped: Tried
    seed: int
    coordinates: int
    """m, the number of residual coordinates that were permuted and flipped."""
    not_exchangeable: bool = False
    """Whether the architecture treats some residual coordinates differently from others."""
    by_maximum: float | None = None
    """The p-value corrected for the paths that are tested by the same permutations; None for a path alone."""
    part: float = 1.0
    """Part of all paths that these permutations test."""

    name = "permutation"

    @property
    def p_over_paths(self) -> float:
        """The p-value corrected for all paths: by the maximum, and where some are tested otherwise by Bonferroni."""
        return min(1.0, (self.p_value if self.by_maximum is None else self.by_maximum) / self.part)

    @property
    def correction(self) -> str:
        """The name of the correction of the p-value for several paths."""
        return MAXIMUM if self.part == 1 else f"{MAXIMUM}, Bonferroni"

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
    def unreached(self) -> bool:
        """Whether no permutation and no flip reached the observed score: p is the least that is possible."""
        return not (self.permuted.reached or self.flipped.reached)

    @property
    def z(self) -> float:
        """Standard deviations of the null by which the observed score lies above its mean; a picture, not a test."""
        deviation = float(self.scores.std())
        return (self.observed - float(self.scores.mean())) / deviation if deviation > 0 else 0.0

    @property
    def effect(self) -> float:
        """(observed - mean) / (1 - mean): the score less what the group reaches, 0 by chance and 1 for equal models.

        Corrected for chance as the adjusted Rand index is (Hubert and Arabie 1985). The test coordinates hold no error
        of a sketch, and what the pairing of layers gains by choosing is in both terms.
        """
        mean = max(float(self.scores.mean()), float(self.flipped.scores.mean()))
        return (self.observed - mean) / (1 - mean) if mean < 1 else 0.0

    @property
    def range(self) -> tuple[float, float]:
        """The scores between which 98 of 100 permutations lie: what "about 0" means for this pair."""
        low, high = np.quantile(self.scores, (0.01, 0.99)).tolist()
        return low, high


Null = PermutationNull | EmpiricalNull
"""The distribution of the score of one path between independent models."""


def deciding(nulls: Sequence[Null]) -> Null | None:
    """Return the null that decides the verdict, the first without an objection; None if all have one."""
    return next((null for null in nulls if not null.objection), None)


def permutation_null(a: PathSignature, b: PathSignature, permutations: int, seed: int) -> PermutationNull:
    """Return the null of the lineage score on the test coordinates, alignment and gate included.

    The gate stays as it is: trace and norm do not change under a permutation or a flip.
    """
    drawn = (np.concatenate([*scores(half, a, b, permutations, seed)]) for half in HALVES)
    permuted, flipped = (Tried(float(values[0]), values[1:]) for values in drawn)
    return PermutationNull(permuted, flipped, seed, a.corner.shape[1])


def sequential_nulls(
    pairs: Mapping[str, tuple[PathSignature, PathSignature]], first: int, seed: int
) -> dict[str, PermutationNull]:
    """Return the permutation null of each path, of as many permutations and flips as the rule of `p_values` asks for.

    All paths have as many test coordinates, and the same permutations serve all of them: every path has the null that
    it would have alone, and `by_maximum` in addition.
    """
    several, tried, corrected = len(pairs) > 1, list[dict[str, Tried]](), list[dict[str, float]]()
    for half in HALVES:
        count = most(first) + several * SCALE
        draws = {path: Draws(scores(half, a, b, count, seed)) for path, (a, b) in pairs.items()}
        tried.append({path: Tried.draw(drawn, first) for path, drawn in draws.items()})
        alone = {path: one.p_value for path, one in tried[-1].items()}
        corrected.append(step_down(draws, alone, first) if several else alone)
    return {
        path: PermutationNull(
            *(half[path] for half in tried),
            seed,
            a.corner.shape[1],
            by_maximum=max(half[path] for half in corrected) if several else None,
        )
        for path, (a, _) in pairs.items()
    }
