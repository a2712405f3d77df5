"""Verdict: what the evidence shows about shared ancestry, or why it shows nothing.

A verdict is about ancestry that two models share: never about direction, ownership or wrongdoing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from hf_lineage.errors import printable
from hf_lineage.evidence import adapters, units
from hf_lineage.evidence.executed import Executed
from hf_lineage.evidence.nulls import Null, PermutationNull, deciding
from hf_lineage.evidence.paths import Comparison
from hf_lineage.evidence.units import Inherited
from hf_lineage.signature import Sampled

if TYPE_CHECKING:
    from hf_lineage.evidence.equal_numbers import EqualNumbers
    from hf_lineage.evidence.nulls import EmpiricalNull
    from hf_lineage.evidence.strict import Strict


class ExitCode(IntEnum):
    """What the command returns; of several claims the most severe counts, in the order of SEVERITY."""

    RELATED = 0
    UNRELATED = 1
    ERROR = 2
    UNDECIDED = 3


SEVERITY = (ExitCode.RELATED, ExitCode.UNDECIDED, ExitCode.UNRELATED, ExitCode.ERROR)
"""From the least severe to the most severe."""


@dataclass(frozen=True, repr=False)
class Evidence:
    """What was measured along one path."""

    comparison: Comparison
    nulls: tuple[Null, ...]
    """What the score is compared with; the first null without an objection decides, the others have to admit it."""
    p_value: float
    """The p-value of the null that decides, corrected for the number of paths and of interim analyses."""
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of the layers that were compared, of the base and of the candidate."""
    analyses: int = 1
    """The number of interim analyses, the last one, of all layers, included; p is corrected for it (Bonferroni)."""
    further: int = 0
    """Tests of the same claim that may follow where this one shows nothing; p is corrected for them likewise."""
    inherited: Inherited | None = None
    """What the candidate's units inherit; None where weights are not finite, or a signature holds no units."""
    not_finite: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """The numbers of the layers with values that are not finite, of the base and of the candidate."""
    sampled: Sampled | None = None
    """How much of each of these layers was read; None where that is the whole layer."""

    def __repr__(self) -> str:
        return f"<Evidence: score {self.comparison.score:.3f}, p {self.p_value:.3g}, {self.read} layers>"

    @property
    def decided_by(self) -> Null | None:
        """The null that decides the verdict; None if all nulls have an objection."""
        return deciding(self.nulls)

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
        others = [null for null in self.nulls if not isinstance(null, PermutationNull)]
        if not others:
            return None
        from hf_lineage.evidence.nulls import EmpiricalNull

        return next((null for null in others if isinstance(null, EmpiricalNull)), None)

    @property
    def origins(self) -> dict[int, int]:
        """By the number of each layer of which more than half is inherited, that of the base's layer it is from."""
        base, candidate = self.layers
        rows = () if self.inherited is None or not self.inherited.partners else self.inherited.layers
        return {candidate[row]: base[self.inherited.partners[row]] for row in rows if self.inherited}

    @property
    def read(self) -> int:
        """How many layers of the candidate were read."""
        return len(self.layers[1])


class Kind(Enum):
    """Every kind of verdict; those of models that share ancestry come first, from the strongest to the weakest.

    The table in `hf_lineage.report.words.kinds` adds how reports show each kind.
    """

    RELATED = "related", "RELATED", "RELATED", ExitCode.RELATED
    ADAPTER = "adapter", "RELATED", "RELATED by trace", ExitCode.RELATED
    LISTED = "listed", "RELATED", "RELATED by the listing", ExitCode.UNDECIDED
    CALIBRATED = "calibrated", "RELATED", "RELATED, calibrated", ExitCode.UNDECIDED
    WEAK = "weak", "RELATED", "RELATED by trace, weakly", ExitCode.UNDECIDED
    IN_PART = "part", "RELATED", "RELATED in part", ExitCode.UNDECIDED
    BASIS_ONLY = "basis", "RELATED", "RELATED by the basis only", ExitCode.UNDECIDED
    READ_AS = "as", "RELATED", "RELATED as read", ExitCode.UNDECIDED
    UNRELATED = "unrelated", "UNRELATED", "UNRELATED", ExitCode.UNRELATED
    INCONCLUSIVE = "inconclusive", "INCONCLUSIVE", "INCONCLUSIVE", ExitCode.UNDECIDED
    INCOMPATIBLE = "incompatible", "INCOMPATIBLE", "INCOMPATIBLE", ExitCode.UNDECIDED
    UNVERIFIABLE = "unverifiable", "UNVERIFIABLE", "UNVERIFIABLE", ExitCode.UNDECIDED
    UNREADABLE = "unreadable", "UNREADABLE", "UNREADABLE", ExitCode.ERROR

    def __init__(self, identifier: str, word: str, words: str, exit_code: ExitCode) -> None:
        self.identifier: str = identifier
        """For options and the key `kind` of reports; it distinguishes the kinds of RELATED."""
        self.word = word
        """For programs."""
        self.words = words
        """For readers."""
        self.exit_code = exit_code
        """What the command returns for a claim of this verdict."""

    @property
    def is_related(self) -> bool:
        """Whether models of such a verdict share ancestry."""
        return self.word == Kind.RELATED.word

    @classmethod
    def parse(cls, identifier: str | None, word: str) -> Kind | None:
        """Return the kind with this word and this identifier, else the first with this word, None if there is none.

        An identifier alone says nothing: a file that holds it beside another word contradicts itself.
        """
        kinds = [kind for kind in cls if kind.word == word]
        return next((kind for kind in kinds if kind.identifier == identifier), next(iter(kinds), None))


@dataclass(frozen=True, repr=False)
class Verdict:
    """What the evidence shows about one claim; `reason` is empty where the evidence needs no explanation."""

    kind: Kind
    reason: str = ""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """By path."""
    by_path: Mapping[str, Verdict] = field(default_factory=dict)
    """The verdict of each path by itself."""
    trace: adapters.Trace | None = None
    """What was measured of an adapter that was not merged; `evidence` and `by_path` are empty then."""
    framed: units.Framed | None = None
    """What the two models show unit by unit, where the paths do not decide; None if it was not measured."""
    equal: EqualNumbers | None = None
    """Which numbers are the base's, bit for bit; None where they were not compared, or show nothing."""
    accepted: bool = False
    """Whether the user accepts this kind of RELATED although it does not verify the claim."""
    executed: Executed | None = None
    """What was seen when both models ran; None where nobody asked for it."""
    strict: Strict | None = None
    """How every number compares with the base's; None where nobody asked for it."""

    def __repr__(self) -> str:
        return f"<{self.words}{f': {printable(self.reason, 200)}' if self.reason else ''}>"

    @property
    def exit_code(self) -> ExitCode:
        """What the command returns for this claim: RELATED if it is verified or its kind is accepted.

        Where it was asked whether the model is the base's numbers and nothing else, it also has to be that, and where
        it was asked to run both models, they also have to run.
        """
        code = ExitCode.RELATED if self.accepted else self.kind.exit_code
        refused = (self.strict is not None and not self.strict.holds) or self._not_run
        return max(code, ExitCode.UNDECIDED, key=SEVERITY.index) if refused else code

    @property
    def name(self) -> str:
        """The word for programs."""
        return self.kind.word

    @property
    def words(self) -> str:
        """The words that reports print."""
        return self.kind.words

    @property
    def is_related(self) -> bool:
        """Whether the models share ancestry, in whatever way."""
        return self.kind.is_related

    @property
    def by_units(self) -> bool:
        """Whether the verdict rests on the hidden units alone, and not on the products of the paths."""
        return self.framed is not None and not (self.evidence and self.kind is Kind.UNRELATED)

    @property
    def decisive(self) -> str | None:
        """The path that decided, None where nothing was measured.

        It has the highest score of those that say by themselves what all of them say together.
        """
        alike = [path for path, single in self.by_path.items() if single.words == self.words]
        named = [path for path, single in self.by_path.items() if single.name == self.name]
        paths = alike or named or list(self.evidence)
        return max(paths, key=lambda path: self.evidence[path].comparison.score, default=None)

    @property
    def verified(self) -> bool:
        """Whether the claim is verified: RELATED by the exact test, and more than the required share is inherited.

        An adapter that was not merged inherits no units; its own exact test and the size of its trace verify its claim.
        """
        return self.kind in (Kind.RELATED, Kind.ADAPTER) and not self._not_run

    @property
    def _not_run(self) -> bool:
        """Whether it would rest on what is stored alone, although the model was to be run; an adapter never runs."""
        return self.kind is Kind.RELATED and self.executed is not None and bool(self.executed.problem)

    @property
    def verified_by_running(self) -> bool:
        """Whether the claim is verified by what the model does when it runs, and not only by what it stores."""
        return self.verified and self.executed is not None and self.executed.complete

    @property
    def verified_by_numbers(self) -> bool:
        """Whether the claim is verified, and every number of the model is the base's as its format stores it."""
        return self.verified and self.strict is not None and self.strict.holds

    @property
    def mark(self) -> str:
        """Whether the claim is verified, and by what, in words."""
        if self.verified_by_numbers:
            return "verified by every number"
        return "verified by running" if self.verified_by_running else "verified" if self.verified else "not verified"
