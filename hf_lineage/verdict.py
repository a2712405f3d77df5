"""Verdict: what the evidence allows to say about shared ancestry, or why nothing can be said.

A verdict is about ancestry that two models share: never about direction, ownership or wrongdoing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from hf_lineage.calibrate import EmpiricalNull, PermutationNull
from hf_lineage.comparison import Comparison

FLOOR = 0.02
"""The least score, and the least effect on the test coordinates, called RELATED, however significant."""
FEWEST_COORDINATES = 8
"""Fewer can be relabelled in so few ways that a p-value says little."""


class ExitCode(IntEnum):
    """What the command returns; of several claims the error outranks the contradiction, and that the undecided."""

    RELATED = 0
    UNRELATED = 1
    ERROR = 2
    UNDECIDED = 3


SEVERITY = (ExitCode.RELATED, ExitCode.UNDECIDED, ExitCode.UNRELATED, ExitCode.ERROR)


@dataclass(frozen=True)
class Evidence:
    """What was measured along one path."""

    comparison: Comparison
    permutation: PermutationNull
    empirical: EmpiricalNull | None
    p_value: float
    """The permutation p-value after Holm's correction over the paths asked for, times the looks."""
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of the layers that were compared, of the base and of the suspect."""
    looks: int = 1
    """How often the evidence may have been looked at while layers were still being read (Bonferroni)."""


@dataclass(frozen=True)
class Verdict:
    """Base of the six verdicts; `reason` is empty where the evidence speaks for itself."""

    reason: str = ""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """By path."""
    by_path: Mapping[str, Verdict] = field(default_factory=dict)
    """What each path says by itself."""

    exit_code = ExitCode.UNDECIDED

    @property
    def name(self) -> str:
        """The word that reports print."""
        return type(self).__name__.upper()


class Related(Verdict):
    """The two models share weights: p <= alpha and a score above the floor and above any empirical threshold."""

    exit_code = ExitCode.RELATED


class Unrelated(Verdict):
    """Nothing tells the two models from independent ones."""

    exit_code = ExitCode.UNRELATED


class Inconclusive(Verdict):
    """Measured, but the numbers do not decide."""


class Incompatible(Verdict):
    """Models of different width, which the method does not compare."""


class Unverifiable(Verdict):
    """There is nothing to compare."""


class Unreadable(Verdict):
    """The base is there but damaged."""

    exit_code = ExitCode.ERROR


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted for having looked at several paths (Holm 1979).

    >>> holm({"mlp": 0.004, "value_output": 0.03})
    {'mlp': 0.008, 'value_output': 0.03}
    """
    adjusted: dict[str, float] = {}
    least = 0.0
    for rank, path in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[path]))
        adjusted[path] = least
    return adjusted


def judge(evidence: Mapping[str, Evidence], alpha: float, floor: float = FLOOR, objection: str = "") -> Verdict:
    """Return the verdict over all paths: RELATED where any of them is, UNRELATED where all of them are.

    `objection` says why the permutation null does not hold for this architecture, and is empty where it does.
    """
    singles = {path: judge_path(found, alpha, floor, objection) for path, found in evidence.items()}
    for kind in (Related, Inconclusive):
        for single in singles.values():
            if isinstance(single, kind):
                return kind(single.reason, evidence, singles)
    return Unrelated("", evidence, singles)


def judge_path(found: Evidence, alpha: float, floor: float = FLOOR, objection: str = "") -> Verdict:
    """Return the verdict of one path, without evidence attached."""
    comparison = found.comparison
    usable, layers = int(comparison.usable.sum()), len(comparison.usable)
    if usable * 2 <= layers:
        return Inconclusive(f"only {usable} of {layers} layers hold finite weights that are not zero")
    if objection and (why := found.empirical.too_few(alpha) if found.empirical else objection):
        return Inconclusive(why)
    if not objection and not found.empirical and found.permutation.coordinates < FEWEST_COORDINATES:
        return Inconclusive(f"{found.permutation.coordinates} residual coordinates are too few to relabel")
    if _independent(found, alpha, bool(objection)):
        return Unrelated()
    # The test coordinates hold no error of a sketch, and the score holds more than the test coordinates.
    if min(comparison.score, found.permutation.effect) < floor:
        return Inconclusive(
            f"significant, but the score is less than {floor:g} above chance; "
            "a shared initialisation or distant ancestry can do that"
        )
    return Related()


def _independent(found: Evidence, alpha: float, calibrated: bool) -> bool:
    """Whether nothing tells a path from that of independent models: by the exact test, or by scores of such models.

    Where the exact test holds, a score has to be above those of all independent models as well.
    """
    score = found.comparison.score
    if calibrated and found.empirical:
        return found.empirical.p_value(score) > alpha
    return found.p_value > alpha or (found.empirical is not None and score <= found.empirical.threshold)
