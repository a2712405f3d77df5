"""Results: a claim about a model with its verdict, and a finding beside it, as plain values; an error as a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from hf_lineage import policy
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, RepositoryError, printable
from hf_lineage.evidence import relation
from hf_lineage.evidence.verdict import SEVERITY, Code, ExitCode, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.values import Origin
from hf_lineage.source.model import Downloads, OpenedModel

if TYPE_CHECKING:
    from hf_lineage.evidence import merge

NAMED = ("--base",)  # The sources of a claim that the user makes with --base, and the model does not
T = TypeVar("T")
ModelOrVerdict = OpenedModel | Verdict  # The verdict says why nothing is compared

VERDICTS: tuple[type[LineageError], ...] = (NothingToCompare, RepositoryError, CheckpointError)
"""Errors of a base that become verdicts; of the candidate only the first becomes one, the others are raised."""


@dataclass(frozen=True)
class Table:
    """A table of texts, every row as long as `columns`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()  # Columns that hold figures, counted from 0


@dataclass(frozen=True)
class Bar:
    """A share of the whole: 0 is nothing, 1 is all of it; ends beyond them are drawn at them."""

    label: str
    value: float
    low: float
    high: float  # The ends of the interval that holds the value
    clear: bool = True  # Whether the value says anything; where the interval is too wide, only that is drawn
    pale: bool = False  # Whether it is drawn paler than others, as what a picture is not about


@dataclass(frozen=True)
class Bars:
    """A picture: a bar for each of several shares, below each other."""

    bars: tuple[Bar, ...]
    caption: str = ""


@dataclass(frozen=True)
class Finding:
    """One result about a claim, or about all of them."""

    title: str
    about: str = ""  # The name in front of each sentence in a list of several claims; empty for all of them
    sentences: tuple[str, ...] = ()  # Sentences of every report, without a name in front and without a stop at the end
    details: tuple[str, ...] = ()  # Sentences that reports for people add with `--explain`, and pages always
    tables: tuple[Table, ...] = ()  # Shown where the details are
    picture: Bars | None = None  # Drawn where there are pictures, below `tables`
    values: Any = None  # The same for machines, as values of JSON
    first: bool = False  # Whether every report says it before everything else
    in_verdict: bool = False  # Whether a page says it beside the verdict, above everything else
    brief: str = ""  # The sentence of a report without `--explain`; empty where such a report does not have the finding

    @property
    def statements(self) -> Iterator[str]:
        """The sentences, or the details where there are none, each with the name in front."""
        return (self.prefix_about(sentence) for sentence in self.sentences or self.details)

    def prefix_about(self, sentence: str) -> str:
        """Return a sentence with what it is about in front."""
        return f"{self.about}: {sentence}" if self.about else sentence


@dataclass(frozen=True, repr=False)
class ClaimResult:
    """One claim and its verdict."""

    claim: Claim
    verdict: Verdict
    base_commit: str | None = None  # The commit of the base; None for a folder, and if the base could not be read
    layers: int | None = None  # Layers of the model, of which the verdict may need only some; None: not opened
    traffic: Mapping[str, Downloads] = field(default_factory=dict)  # By model on the Hub, so far
    base_origin: Origin | None = None
    model_origin: Origin | None = None  # The source of each model's signature; None for a model that was not opened
    notes: tuple[str, ...] = ()  # Sentences about files beside the weights that were not read
    part: str = ""  # The folder that the row is about, or the file of an adapter; empty for the repository itself
    model: str = ""  # The model that is compared, in a report that compares several; otherwise empty
    model_commit: str | None = None  # The commit of that model; None for a folder, and if it could not be read
    parent: merge.Parent | None = None  # Share of the base as one of the parents of a merge; None for any other claim
    derivation: relation.Derivation | None = None  # How its weights show it was made; None: not measured
    base_folder: RepoRef | None = None  # The base, if it is a folder; None for one on the Hub, and for a signature
    licence: str = ""  # The licence that the card of the base states; empty where it states none, or was not read
    waiver: policy.Waiver | None = None  # It accepts the verdict by the policy, though that verifies no claim
    expired: policy.Waiver | None = None  # Waiver that accepted it until a day that has passed
    unmet: tuple[str, ...] = ()  # The requirements of that policy that the claim does not meet
    base_model: OpenedModel | None = field(default=None, compare=False)  # None where it could not be opened
    own_code: tuple[str, ...] = ()  # A sentence about code that the model or the base brings, which was not run

    def __str__(self) -> str:
        part = f" ({printable(self.part, 100)})" if self.part else ""
        return f"{printable(self.claim.base, 200)}{part} is {self.verdict.label}"

    def __repr__(self) -> str:
        return f"<ClaimResult: {self}>"


def worst(rows: Sequence[ClaimResult], accepted: bool = False) -> ExitCode:
    """Return the most severe exit code, undecided of no rows; what is accepted counts as a verified claim."""
    codes = [ExitCode.VERIFIED if accepted and row.waiver else row.verdict.exit_code for row in rows]
    return max(codes or [ExitCode.UNDECIDED], key=SEVERITY.index)


def error_as_verdict(error: LineageError) -> Verdict:
    """Return the verdict with the code of an error, and its sentence as the reason."""
    return Verdict(Code(error.code), str(error))


def catch_as_verdict(action: Callable[[], T], *expected: type[LineageError]) -> T | Verdict:
    """Return the result of an action or, where it raises one of the expected errors, the verdict with its code."""
    try:
        return action()
    except expected as error:
        return error_as_verdict(error)
