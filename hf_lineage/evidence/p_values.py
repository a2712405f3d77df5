"""P-values: by permutations, or by the scores of models that are known to be independent.

**How many are drawn** is a rule that is fixed beforehand (sequential test).
Besag and Clifford (1991) stop as soon as h permutations have reached the observed score: a pair of independent models
costs about forty of them. Two rules are added. Where none of the first n reaches it, the sequence ends. Where a few do,
it goes on, so that a p-value near alpha is estimated more precisely.

**Why p is valid.** If the two are independent, the observed score has any rank among those of n permutations with the
same probability. None of the first n reaches it with probability 1 / (n + 1); at most r - 1 of s - 1 reach it with
probability r / s. `p_value` is the probability that one or the other is so, which covers every outcome that is called
at least as extreme. A sequence stopped by FEW at permutation l of the first n is called less extreme than all that
passed there. FEW / l is the probability of fewer than FEW in l - 1 permutations, which all of those share.

**Several statistics** are judged by the largest of them (Westfall and Young 1993). The largest of the standardised
statistics is itself a statistic under permutations, so its p-value is exact however the statistics depend on each
other. If they move together, having several costs nothing.

**Why that p is valid.** Take two independent models, and fix what all permutations together would give. Then the
observed statistics and those under every permutation that is drawn are independent and of one distribution. Means and
deviations are taken from the first SCALE permutations, and the maximum is compared with later ones alone: it is then a
fixed function of each, so that the rule above holds for it as for a single statistic. After the path with the largest
statistic, the next one is judged by the maximum over the remaining paths; p never falls on the way (step-down). The
first path on which the two are independent is so judged by a maximum over all such paths: the probability that any of
them is called significant is alpha at most, whatever the other paths show.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import yaml

from hf_lineage.architecture.registry import registry_root
from hf_lineage.errors import RegistryError, printable
from hf_lineage.signature.recipe import Vector

FEW = 20
"""So many of the first n permutations end the sequence by reaching the observed score: p is about FEW / n at least."""
MANY = 200
"""The same number beyond the first n: the relative standard error of p is then 7 %."""
LONGER = 20
"""Factor between the most permutations in all and the first n: at p = FEW / 2n, about MANY of them reach the score."""


def most(first: int) -> int:
    """Return how many permutations are drawn at most if `first` of them are drawn at first."""
    return LONGER * (first + 1) - 1


def ends(drawn: int, reached: int, first: int) -> bool:
    """Return whether a sequence ends after this permutation: enough reached the score, none did, or all are drawn.

    `reached` of `drawn` permutations had at least the observed score, this one perhaps among them.
    """
    return enough(drawn, reached, first) or (drawn == first and not reached) or drawn == most(first)


def enough(drawn: int, reached: int, first: int) -> bool:
    """Return whether as many permutations reached the observed score as the rule asks for."""
    return reached >= (FEW if drawn <= first else MANY)


def sequence(observed: float, under_permutations: Iterator[float], first: int) -> list[float]:
    """Return as many statistics under permutations as the rule asks for, in the order in which they are drawn."""
    drawn: list[float] = []
    reached = 0
    while not (drawn and ends(len(drawn), reached, first)):
        drawn.append(next(under_permutations))
        reached += not drawn[-1] < observed
    return drawn


def p_value(drawn: int, reached: int, first: int) -> float:
    """Return the p-value of a sequence that ended here, at least 1 / (first + 1)."""
    rank, size = (reached, drawn) if enough(drawn, reached, first) else (reached + 1, drawn + 1)
    if drawn <= first:
        return rank / size
    # None of the first n reaches the observed score, and yet so many of all do: none of these is among the first n.
    missed = math.prod((size - 1 - first - number) / (size - number) for number in range(rank))
    return rank / size + missed / (first + 1)


Statistics = TypeVar("Statistics", float, Vector)

SCALE = 128
"""The number of permutations that give mean and deviation of a path: the deviation is then right within some 6 %."""


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of some statistics, by which statistics of unlike sizes are made comparable."""

    mean: float
    deviation: float

    @classmethod
    def estimate(cls, values: Vector) -> Scale:
        """Return the scale of these statistics."""
        return cls(float(values.mean()), float(values.std()))

    def standardised(self, values: Statistics) -> Statistics:
        """Return values less the mean, over the deviation; zeros where there is none."""
        return (values - self.mean) / self.deviation if self.deviation > 0 else values * 0.0


class Draws:
    """An observed statistic, and the same statistic under permutations, each computed when it is first needed."""

    def __init__(self, statistics: Iterator[float]) -> None:
        """Take the observed statistic, and then that under each permutation."""
        self.observed = next(statistics)
        self._rest, self._drawn = statistics, list[float]()

    def __getitem__(self, number: int) -> float:
        """Return the statistic under a permutation, numbered from 0."""
        while len(self._drawn) <= number:
            self._drawn.append(next(self._rest))
        return self._drawn[number]

    def after(self, start: int) -> Iterator[float]:
        """Yield the statistics from this number on, without end."""
        return (self[number] for number in itertools.count(start))

    @functools.cached_property
    def scale(self) -> Scale:
        """The scale of the first permutations."""
        return Scale.estimate(np.array([self[number] for number in range(SCALE)]))


def step_down(draws: Mapping[str, Draws], p_values: Mapping[str, float], first: int) -> dict[str, float]:
    """Return the p-value of each path, corrected for all of them; `p_values` are those of each path alone.

    A path whose statistic is NaN is left out of every maximum, and its p is 1.
    """
    numbers = {path: drawn.scale.standardised(drawn.observed) for path, drawn in draws.items()}
    ranked = sorted((path for path in numbers if not math.isnan(numbers[path])), key=numbers.__getitem__, reverse=True)
    corrected, least = dict.fromkeys(draws, 1.0), 0.0
    for rank, path in enumerate(ranked):
        rest = [draws[other] for other in ranked[rank:]]
        # Other permutations than those of the path alone are counted, which may by chance show less.
        least = max(least, p_values[path], _of_largest(numbers[path], rest, first) if len(rest) > 1 else 0.0)
        corrected[path] = least
    return corrected


def _of_largest(observed: float, paths: Sequence[Draws], first: int) -> float:
    """Return the p-value of the largest statistic of some paths; one that is NaN under a permutation is reached."""
    rows = ([path.scale.standardised(path[number]) for path in paths] for number in itertools.count(SCALE))
    largest = (math.inf if any(map(math.isnan, row)) else max(row) for row in rows)
    drawn = sequence(observed, largest, first)
    return p_value(len(drawn), not_below(observed, np.array(drawn)), first)


def not_below(observed: float, permuted: Vector) -> int:
    """Return how many statistics are at least the observed one."""
    # Those below are counted: an observed NaN is then reached by all permutations, and never significant.
    return len(permuted) - int(np.sum(permuted < observed))


@dataclass(frozen=True)
class EmpiricalNull:
    """Scores of the base against named models that are independent of it (equation 7)."""

    scores: Mapping[str, float]
    source: str
    tests: int = 1
    """The number of paths that are tested by such scores: p-values are multiplied by it (Bonferroni)."""
    observed: float = math.nan
    """The score of the candidate."""
    alpha: float = 0.01

    name = "empirical"
    correction = "Bonferroni"

    @property
    def threshold(self) -> float:
        """τ, the largest score an independent model reached."""
        return max(self.scores.values())

    @property
    def p_value(self) -> float:
        """The conformal p-value (#{score_j >= score} + 1) / (n + 1) times `tests`, 1 at most."""
        reached = sum(other >= self.observed for other in self.scores.values())
        return min(1.0, self.tests * (reached + 1) / (len(self.scores) + 1))

    @property
    def p_over_paths(self) -> float:
        """The p-value, in which the paths are counted already."""
        return self.p_value

    @property
    def admits(self) -> bool:
        """Whether the candidate scores higher than every independent model, so that the verdict may be RELATED."""
        return self.observed > self.threshold

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""
        return f"{len(self.scores)} independent models reach {self.threshold:.2g}; {printable(self.source)}"

    @property
    def objection(self) -> str:
        """Why these scores cannot give p <= alpha; empty if there are enough of them."""
        needed = math.ceil(self.tests / self.alpha - 1e-9) - 1
        if len(self.scores) >= needed:
            return ""
        return (
            f"{len(self.scores)} independent model(s) cannot show p <= {self.alpha:g}; that needs at least {needed}; "
            "name more with --null"
        )


class PublishedNull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of `registry/nulls`: scores that somebody published, with their source."""

    reference: str
    path: str
    recipe: str
    source: str
    scores: dict[str, float]
    remark: str = ""


def published_null(name: str, root: Path | None = None) -> PublishedNull | None:
    """Return the published null of this name, None if there is none; raise RegistryError if its file is malformed."""
    file = (root or registry_root()) / "nulls" / f"{Path(name).name}.yaml"
    if Path(name).name != name or not file.is_file():
        return None
    try:
        return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), PublishedNull)
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"nulls/{file.name}: {error}") from None
