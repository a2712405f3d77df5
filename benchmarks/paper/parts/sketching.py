"""Sketching: what the errors of sketched scores are, and how they go with k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.parts.judging import verdict
from hf_lineage.evidence.comparison import Comparison
from hf_lineage.evidence.verdict import Evidence


@dataclass
class Errors:
    """What sketches make of the pairs of one kind, for one k: (pairs, draws) each."""

    score: list[list[float]] = field(default_factory=list)
    """Sketched minus exact score."""
    paired: list[list[float]] = field(default_factory=list)
    """The same, with the layers paired as exact mode pairs them."""
    stated: list[list[float]] = field(default_factory=list)
    """The standard error that the library states."""
    changed: int = 0
    """How many verdicts are not that of exact mode."""

    def add(self, exact: Evidence, sketched: Sequence[Comparison]) -> None:
        """Add the sketches of one pair."""
        right = exact.comparison
        self.score.append([each.score - right.score for each in sketched])
        self.paired.append([float(each.similarity[right.pairs].mean()) - right.score for each in sketched])
        self.stated.append([each.standard_error for each in sketched])
        codes = [verdict(replace(exact, comparison=each)).code for each in sketched]
        self.changed += sum(code is not verdict(exact).code for code in codes)

    @property
    def deviation(self) -> float:
        """The standard deviation over the draws, of all pairs, as the pairs of layers are in exact mode.

        Where layers are unrelated the assignment takes those whose errors are largest, which is no error of a probe.
        """
        return rms(np.std(self.paired, axis=1, ddof=1))

    @property
    def draws(self) -> int:
        """Of all pairs."""
        return int(np.size(self.score))

    @property
    def within(self) -> float:
        """The share of errors of at most two stated standard errors."""
        return float(np.mean(np.abs(self.score) <= 2 * np.array(self.stated)))


def rms(values: object) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


def exponent(by_k: Mapping[int, Errors]) -> float:
    """Return the exponent of k in the standard deviation, by least squares."""
    logs: NDArray[np.float64] = np.log([[k, errors.deviation] for k, errors in by_k.items()])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
