"""Verdict: a word and a code for what the evidence shows about shared ancestry.

A verdict is about ancestry that two models share: never about direction, ownership or wrongdoing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from hf_lineage.errors import printable
from hf_lineage.evidence.comparison import Comparison
from hf_lineage.evidence.executed import RunOutcome
from hf_lineage.evidence.inherited import InheritedShare
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.permutation import Null, PermutationNull
from hf_lineage.signature.values import SampleSize

if TYPE_CHECKING:
    from hf_lineage.evidence import unit_comparison
    from hf_lineage.evidence.equal_numbers import EqualNumbers
    from hf_lineage.evidence.executed import Strict
    from hf_lineage.lora import gradient_alignment


class ExitCode(IntEnum):
    """Values that the command returns; of several claims the most severe counts, in the order of SEVERITY."""

    VERIFIED = 0
    UNRELATED = 1
    ERROR = 2
    UNDECIDED = 3
    TRY_AGAIN = 4


SEVERITY = (ExitCode.VERIFIED, ExitCode.UNDECIDED, ExitCode.UNRELATED, ExitCode.TRY_AGAIN, ExitCode.ERROR)


@dataclass(frozen=True, repr=False)
class Evidence:
    """Measurements along one path."""

    comparison: Comparison
    nulls: tuple[Null, ...]  # of the score; the first one without an objection decides, the others have to admit it
    p_value: float  # of the null that decides, corrected for the number of paths and of interim analyses
    layers: tuple[tuple[int, ...], tuple[int, ...]]  # numbers of those compared, of the base and of the candidate
    analyses: int = 1  # interim analyses, the last one, of all layers, included; p is corrected for them (Bonferroni)
    further: int = 0  # tests of the same claim that may follow where this one shows nothing; p is corrected likewise
    inherited: InheritedShare | None = None  # None where weights are not finite, or a signature holds no units
    not_finite: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # numbers of layers with values that are not finite
    sampled: SampleSize | None = None  # the share of each layer that was read; None where that is the whole layer

    def __repr__(self) -> str:
        return f"<Evidence: score {self.comparison.score:.3f}, p {self.p_value:.3g}, {self.layers_read} layers>"

    @property
    def decided_by(self) -> Null | None:
        """The null that decides the verdict; None if all nulls have an objection."""
        return next((null for null in self.nulls if not null.objection), None)

    @property
    def first(self) -> Null:
        """The null whose p-value counts: the one that decides, or the last one if all have an objection."""
        return self.decided_by or self.nulls[-1]

    @property
    def permutation(self) -> PermutationNull:
        """The permutation null, which any two models have."""
        return next(null for null in self.nulls if isinstance(null, PermutationNull))

    @property
    def empirical(self) -> EmpiricalNull | None:
        """The empirical null; None if no independent models were named."""
        return next((null for null in self.nulls if isinstance(null, EmpiricalNull)), None)

    @property
    def origins(self) -> dict[int, int]:
        """Number of each layer of which more than half is inherited -> that of the base's layer it is from."""
        base, candidate = self.layers
        rows = () if self.inherited is None or not self.inherited.partners else self.inherited.layers
        return {candidate[row]: base[self.inherited.partners[row]] for row in rows if self.inherited}

    @property
    def layers_read(self) -> int:
        """Number of layers of the candidate that were read."""
        return len(self.layers[1])


class Word(StrEnum):
    """Outcomes of a check."""

    VERIFIED = "VERIFIED"
    RELATED = "RELATED"
    UNRELATED = "UNRELATED"
    UNDECIDED = "UNDECIDED"


class Code(StrEnum):
    """Reasons of an outcome, by names that never change; of related models from the strongest to the weakest."""

    INHERITED = "inherited"
    MERGE = "merge"
    ADAPTER = "adapter"
    LISTED = "listed"
    CALIBRATED = "calibrated"
    WEAK = "weak"
    PART = "part"
    EMBEDDING = "embedding"
    UNLISTED_CLASS = "unlisted-class"
    UNUSED = "unused"
    CHANGED = "changed"
    UNRELATED = "unrelated"
    INCONCLUSIVE = "inconclusive"
    INCOMPATIBLE = "incompatible"
    UNSUPPORTED = "unsupported"
    NO_BASE = "no-base"
    NO_WEIGHTS = "no-weights"
    AMBIGUOUS = "ambiguous"
    UNDECLARED = "undeclared"
    DAMAGED = "damaged"

    @property
    def word(self) -> Word:
        """The outcome that it belongs to."""
        other = Word.UNRELATED if self is Code.UNRELATED else Word.UNDECIDED
        return Word.VERIFIED if self in VERIFYING else Word.RELATED if self in RELATING else other

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a claim with this code."""
        decided = {Word.VERIFIED: ExitCode.VERIFIED, Word.UNRELATED: ExitCode.UNRELATED}
        return ExitCode.ERROR if self is Code.DAMAGED else decided.get(self.word, ExitCode.UNDECIDED)

    @property
    def label(self) -> str:
        """Word and code as reports print them: `RELATED part`, or `UNRELATED`."""
        return str(self.word) if self == self.word.lower() else f"{self.word} {self}"

    @property
    def is_related(self) -> bool:
        """Whether models with this code share ancestry."""
        return self.word in (Word.VERIFIED, Word.RELATED)

    @property
    def is_unjudged(self) -> bool:
        """Whether nothing was compared."""
        return self in UNJUDGED


VERIFYING = frozenset({Code.INHERITED, Code.MERGE, Code.ADAPTER})  # codes of claims that are verified
RELATING = frozenset(list(Code)[len(VERIFYING) : list(Code).index(Code.UNRELATED)])  # related, and not verified
UNJUDGED = frozenset({Code.UNSUPPORTED, Code.NO_BASE, Code.NO_WEIGHTS, Code.AMBIGUOUS, Code.UNDECLARED})


@dataclass(frozen=True, repr=False)
class Verdict:
    """Outcome of one claim; `reason` is empty where the evidence needs no explanation."""

    code: Code
    reason: str = ""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)  # by path
    by_path: Mapping[str, Verdict] = field(default_factory=dict)  # the verdict of each path by itself
    trace: gradient_alignment.Trace | None = None  # of an adapter that was not merged; it has no evidence by path
    unit_comparison: unit_comparison.UnitComparison | None = None  # where the paths do not decide; None if not made
    equal: EqualNumbers | None = None  # None where equal numbers were not counted, or show nothing
    accepted: bool = False  # whether the user accepts this code although it does not verify the claim
    executed: RunOutcome | None = None  # observations of the running model; None where nobody asked for it
    strict: Strict | None = None  # comparison of every number with the base's; None where nobody asked for it

    def __repr__(self) -> str:
        return f"<{self.label}{f': {printable(self.reason, 200)}' if self.reason else ''}>"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of this claim: VERIFIED where the user accepts its code."""
        return ExitCode.VERIFIED if self.accepted else self.code.exit_code

    @property
    def word(self) -> str:
        """The outcome, for programs."""
        return str(self.code.word)

    @property
    def label(self) -> str:
        """Word and code as reports print them."""
        return self.code.label

    @property
    def is_related(self) -> bool:
        """Whether the models share ancestry, in whatever way."""
        return self.code.is_related

    @property
    def by_units(self) -> bool:
        """Whether the verdict rests on the hidden units alone, and not on the products of the paths."""
        return self.unit_comparison is not None and not (self.evidence and self.code is Code.UNRELATED)

    @property
    def decisive(self) -> str | None:
        """The path that decides, of those that agree: the weakest of related models, the strongest of others."""
        alike = [path for path, single in self.by_path.items() if single.label == self.label]
        related = [path for path, single in self.by_path.items() if single.is_related and self.is_related]
        strengths = dict[str, tuple[float, float]]()
        for path in alike or related or self.evidence:
            measured = self.evidence[path]
            strengths[path] = measured.inherited.least if measured.inherited else 0.0, measured.comparison.score
        return (min if self.is_related else max)(strengths, key=strengths.__getitem__, default=None)

    @property
    def verified(self) -> bool:
        """Whether the claim is verified."""
        return self.code.word is Word.VERIFIED

    @property
    def is_executed(self) -> bool:
        """Whether the claim is verified, and the model was seen to use what it inherits."""
        return self.verified and self.executed is not None and self.executed.complete

    @property
    def is_strict(self) -> bool:
        """Whether the claim is verified, and every number of the model is the base's as its format stores it."""
        return self.verified and self.strict is not None and self.strict.holds
