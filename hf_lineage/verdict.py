"""Verdict: what the evidence allows to say about shared ancestry, or why nothing can be said.

A verdict is about ancestry that two models share: never about direction, ownership or wrongdoing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from hf_lineage.calibrate import EmpiricalNull, PermutationNull
from hf_lineage.comparison import Comparison
from hf_lineage.inherited import Inherited


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
    """The p-value that decides: of the permutations, after Holm's correction over the paths and Bonferroni's over the
    interim analyses or, where they hold no null, of the independent models that were named."""
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of the layers that were compared, of the base and of the candidate."""
    analyses: int = 1
    """How many interim analyses there are, the last of all layers among them (Bonferroni)."""
    inherited: Inherited | None = None
    """What the candidate's units inherit; None where a signature was stored without units."""
    left_out: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """The numbers of the layers that write next to nothing and count for nothing, of the base and of the candidate."""
    calibrated: bool = False
    """Whether independent models decide, since the permutation null does not hold for this architecture."""
    not_finite: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """The numbers of the layers in which something is no finite number, of the base and of the candidate."""

    @property
    def read(self) -> int:
        """How many layers of the candidate were read."""
        return len(self.layers[1]) + len(self.left_out[1])


@dataclass(frozen=True)
class Kind:
    """One way of being RELATED."""

    name: str
    words: str
    """What reports print."""
    verified: bool = False


VERIFIED = Kind("related", "RELATED", verified=True)
IN_PART = Kind("part", "RELATED in part")
BASIS_ONLY = Kind("basis", "RELATED by the basis only")
UNMEASURED = Kind("unmeasured", "RELATED, share not measured")
KINDS = (VERIFIED, IN_PART, BASIS_ONLY, UNMEASURED)
"""From the strongest statement to the weakest."""


@dataclass(frozen=True)
class Verdict:
    """Base of the six verdicts; `reason` is empty where the evidence speaks for itself."""

    reason: str = ""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """By path."""
    by_path: Mapping[str, Verdict] = field(default_factory=dict)
    """What each path says by itself."""

    @property
    def exit_code(self) -> ExitCode:
        """What the command returns for this claim."""
        return ExitCode.UNDECIDED

    @property
    def name(self) -> str:
        """The word for machines."""
        return type(self).__name__.upper()

    @property
    def words(self) -> str:
        """The words that reports print."""
        return self.name

    @property
    def verified(self) -> bool:
        """Whether the claim is verified: RELATED by the exact test, and more than the asked share inherited."""
        return False


@dataclass(frozen=True)
class Related(Verdict):
    """The two models share ancestry: p <= alpha, a score above the minimum effect and any empirical threshold."""

    kind: Kind = VERIFIED
    accepted: bool = False
    """Whether the user accepts this kind though it does not verify the claim."""

    @property
    def exit_code(self) -> ExitCode:
        """RELATED where the claim is verified or its kind accepted, else undecided."""
        return ExitCode.RELATED if self.verified or self.accepted else ExitCode.UNDECIDED

    @property
    def words(self) -> str:
        """The words that reports print."""
        return self.kind.words

    @property
    def verified(self) -> bool:
        """Whether the claim is verified."""
        return self.kind.verified


class Unrelated(Verdict):
    """Nothing tells the two models from independent ones."""

    @property
    def exit_code(self) -> ExitCode:
        """The contradiction."""
        return ExitCode.UNRELATED


class Inconclusive(Verdict):
    """Measured, but the numbers do not decide."""


class Incompatible(Verdict):
    """Models of different width, which the method does not compare."""


class Unverifiable(Verdict):
    """There is nothing to compare."""


class Unreadable(Verdict):
    """The base is there but damaged."""

    @property
    def exit_code(self) -> ExitCode:
        """The error."""
        return ExitCode.ERROR
