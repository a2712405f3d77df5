"""P-values: by permutations, or by the scores of models that are known to be independent.

How many are drawn is fixed beforehand (Besag and Clifford 1991): a sequence ends as soon as FEW of the first n reach
the observed score, or where none of them does. Where a few do, it goes on, for a more precise p near alpha. Of several
statistics the largest counts (Westfall and Young 1993): itself a statistic under permutations, so its p is exact.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from hf_lineage.architecture.registry import registry_root
from hf_lineage.errors import RegistryError, printable
from hf_lineage.signature.recipe import Vector

FEW = 20  # so many of the first n permutations end the sequence by reaching the score: p is about FEW / n at least
MANY = 200  # the same number beyond the first n: the relative standard error of p is then 7 %
LONGER = 20  # factor between the most permutations and the first n: at p = FEW / 2n, about MANY of them reach the score
Statistics = TypeVar("Statistics", float, Vector)
SCALE = 128  # permutations that give mean and deviation of a path: the deviation is then right within some 6 %


def most(first: int) -> int:
    """Return how many permutations are drawn at most if `first` of them are drawn at first."""
    return LONGER * (first + 1) - 1


def ends(drawn: int | NDArray[Any], reached: int | NDArray[Any], first: int) -> NDArray[np.bool_]:
    """Return whether a sequence ends after this permutation: enough `reached` the score, none did, or all are drawn."""
    none = (drawn == first) & (reached == 0)
    return np.asarray((reached >= np.where(drawn <= first, FEW, MANY)) | none | (drawn == most(first)))


def sequence(observed: float, pieces: Iterator[Vector], first: int) -> Vector:
    """Return as many statistics under permutations as the rule asks for, at most those that come in pieces."""
    drawn = np.zeros(0)
    for piece in pieces:
        drawn = np.append(drawn, piece)
        ended = ends(np.arange(1, len(drawn) + 1), np.cumsum(~(drawn < observed)), first)
        if ended.any():
            return drawn[: int(ended.argmax()) + 1]
    return drawn


def p_value(drawn: int, reached: int, first: int) -> float:
    """Return the p-value of a sequence that ended here, at least 1 / (first + 1)."""
    # If the two are independent, the observed score has any rank among n permutations with one probability. None of the
    # first n reaches it with probability 1 / (n + 1); at most r - 1 of s - 1 reach it with probability r / s. p is that
    # of one or the other, which covers every outcome that is called at least as extreme. A sequence stopped by FEW
    # at permutation l of the first n is less extreme than all that passed there, with fewer than FEW in l - 1: FEW / l.
    enough = reached >= (FEW if drawn <= first else MANY)
    rank, size = (reached, drawn) if enough else (reached + 1, drawn + 1)
    if drawn <= first:
        return rank / size
    # None of the first n reaches the observed score, and yet so many of all do: none of these is among the first n.
    missed = math.prod((size - 1 - first - number) / (size - number) for number in range(rank))
    return rank / size + missed / (first + 1)


def standardise(values: Statistics, sample: Vector) -> Statistics:
    """Return statistics less the mean of a sample, over its deviation; zeros where it has none."""
    mean, deviation = float(sample.mean()), float(sample.std())
    return (values - mean) / deviation if deviation > 0 else values * 0.0


class Draws:
    """An observed statistic, and then, in pieces, the same under permutations, computed when they are first needed."""

    def __init__(self, pieces: Iterator[Vector]) -> None:
        values = next(pieces)
        self.observed, self._values, self._pieces = float(values[0]), values[1:], pieces

    def compute_values(self, count: int) -> Vector:
        """Return all statistics under permutations that are computed, so many at least if there are as many."""
        while len(self._values) < count and (piece := next(self._pieces, None)) is not None:
            self._values = np.append(self._values, piece)
        return self._values

    def after(self, start: int) -> Iterator[Vector]:
        """Yield the statistics from this number on, in pieces."""
        while len(piece := self.compute_values(start + 1)[start:]):
            yield piece
            start += len(piece)

    def standardise(self, values: Statistics) -> Statistics:
        """Return statistics less the mean of the first permutations, over their deviation."""
        return standardise(values, self.compute_values(SCALE)[:SCALE])


def step_down(draws: Mapping[str, Draws], p_values: Mapping[str, float], first: int) -> dict[str, float]:
    """Return the p-value of each path, corrected for all of them; `p_values` are those of each path alone."""
    # Given what all permutations together would give, observed statistics and those drawn are independent and of one
    # distribution. Means and deviations are of the first SCALE permutations; the maximum is compared with later ones
    # alone: a fixed function of each, for which the rule holds. After the path with the largest statistic, the next one
    # is judged by the maximum over those that remain; p never falls. So the first path on which the two are independent
    # is judged by a maximum over all such paths: any is significant with probability alpha at most. A path whose
    # statistic is NaN is left out of every maximum, and its p is 1.
    numbers = {path: drawn.standardise(drawn.observed) for path, drawn in draws.items()}
    ranked = sorted((path for path in numbers if not math.isnan(numbers[path])), key=numbers.__getitem__, reverse=True)
    corrected, least = dict.fromkeys(draws, 1.0), 0.0
    for rank, path in enumerate(ranked):
        least = max(least, p_values[path])
        if rest := ranked[rank + 1 :]:
            # Other permutations than those of the path alone are counted, which may by chance show less.
            drawn = sequence(numbers[path], _largest([draws[other] for other in (path, *rest)]), first)
            least = max(least, p_value(len(drawn), not_below(numbers[path], drawn), first))
        corrected[path] = least
    return corrected


def _largest(paths: Sequence[Draws]) -> Iterator[Vector]:
    """Yield the largest statistic of some paths under each of the later permutations; infinity where one is NaN."""
    start = SCALE
    while (stop := min(len(path.compute_values(start + 1)) for path in paths)) > start:
        largest = np.max([path.standardise(path.compute_values(stop)[start:stop]) for path in paths], axis=0)
        yield np.where(np.isnan(largest), math.inf, largest)
        start = stop


def not_below(observed: float, permuted: Vector) -> int:
    """Return how many statistics are at least the observed one."""
    # Those below are counted: an observed NaN is then reached by all permutations, and never significant.
    return len(permuted) - int(np.sum(permuted < observed))


@dataclass(frozen=True)
class EmpiricalNull:
    """Scores of the base against named models that are independent of it (equation 7)."""

    scores: Mapping[str, float]
    source: str
    tests: int = 1  # the number of paths that are tested by such scores: p-values are multiplied by it (Bonferroni)
    observed: float = math.nan  # the score of the candidate
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

    p_over_paths = p_value  # the paths are counted already

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""
        return f"{len(self.scores)} independent models reach {self.threshold:.2g}; {printable(self.source)}"

    @property
    def objection(self) -> str:
        """Why these scores cannot give p <= alpha; empty if there are enough of them."""
        needed = math.ceil(self.tests / self.alpha - 1e-9) - 1
        if len(self.scores) >= needed:
            return ""
        known = f"{len(self.scores)} independent model(s) cannot show p <= {self.alpha:g}"
        return f"{known}; that needs at least {needed}; name more with --null"


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
