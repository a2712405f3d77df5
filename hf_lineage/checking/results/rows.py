"""Rows: each claim about a model, with its verdict; an error of a base is the verdict of its row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hf_lineage.checking.judge import Step, judged_every_way, reach, through
from hf_lineage.checking.options import Options
from hf_lineage.checking.relation import derived
from hf_lineage.checking.results.failures import VERDICTS, attempt
from hf_lineage.checking.source import (
    CONFIG,
    Downloads,
    FromWeights,
    OpenedModel,
    Parts,
    counterpart,
    locate,
    open_model,
    part_of,
    unchanged,
)
from hf_lineage.claims import Claim, Licence
from hf_lineage.errors import NetworkError, NothingToCompare, RepositoryError, printable
from hf_lineage.evidence import SEVERITY, ExitCode, Kind, Verdict
from hf_lineage.evidence.derivation import Derivation, Parent
from hf_lineage.evidence.judging import judge_merge
from hf_lineage.hub import RepoRef, resolve
from hf_lineage.policy import Waiver
from hf_lineage.signature import Signature
from hf_lineage.signature.sources import Origin

NAMED = ("--base",)
"""The sources of a claim that the user makes with --base, and the model does not."""
Candidate = Callable[[], OpenedModel | Verdict]
"""The candidate, opened; or the verdict that says why there is nothing to compare."""
MERGE = "merge"
"""The relation that a merge of several parents declares."""


@dataclass(frozen=True, repr=False)
class Row:
    """One claim and its verdict."""

    claim: Claim
    verdict: Verdict
    base_commit: str | None = None
    """The commit of the base; None for a folder, and if the base could not be read."""
    layers: int | None = None
    """How many layers the model has, of which the verdict may have needed only some; None if it was not opened."""
    traffic: Mapping[str, Downloads] = field(default_factory=dict)
    """What was downloaded so far, by model; only models on the Hub are in it."""
    base_origin: Origin | None = None
    model_origin: Origin | None = None
    """The source of each model's signature; None for a model that was not opened."""
    notes: tuple[str, ...] = ()
    """Sentences about files beside the weights that were not read, and about other ways to load the model."""
    part: str = ""
    """The folder of the repository that the row is about, or the file of the adapter beside a model; empty for the
    repository itself."""
    parent: Parent | None = None
    """What the base gave as one of the parents of a merge; None for any other claim."""
    steps: tuple[Step, ...] = ()
    """From the base that is declared to the one that was compared in its place; none where it was itself."""

    derivation: Derivation | None = None
    """How the model was made from the base, as its weights show it; None where that was not measured."""
    base_folder: RepoRef | None = None
    """The base that was compared, if it is a folder; None for one on the Hub, and for a signature."""
    licence: Licence | None = None
    """What the card of the base states; None where it states nothing, or was not read."""
    waiver: Waiver | None = None
    """What accepts the verdict though it verifies no claim, by the policy of whoever checks."""
    expired: Waiver | None = None
    """What did so until a day that is past."""
    unmet: tuple[str, ...] = ()
    """What that policy asks for and the claim is not."""
    own_code: tuple[str, ...] = ()
    """What the verdict says of code that the model or the base brings, which was not run."""

    def __str__(self) -> str:
        part = f" ({printable(self.part, 100)})" if self.part else ""
        verified = ", verified" if self.verdict.verified else ""
        return f"{printable(self.claim.base, 200)}{part} is {self.verdict.words}{verified}"

    def __repr__(self) -> str:
        return f"<Row: {self}>"

    @property
    def compared(self) -> str:
        """The name of the base that was compared."""
        return self.steps[-1].declares if self.steps else self.claim.base


def worst(rows: Sequence[Row], accepted: bool = False) -> ExitCode:
    """Return the most severe exit code, undecided of no rows; what is accepted counts as a verified claim."""
    codes = [ExitCode.RELATED if accepted and row.waiver else row.verdict.exit_code for row in rows]
    return max(codes or [ExitCode.UNDECIDED], key=SEVERITY.index)


def open_or_verdict(source: RepoRef | Signature, options: Options, is_base: bool = False) -> OpenedModel | Verdict:
    """Return an opened model, or the verdict that says why there is nothing to compare."""
    return attempt(lambda: open_model(source, options, is_base), NothingToCompare)


def opened_once(source: RepoRef | Signature, options: Options) -> Candidate:
    """Return what opens a candidate when it is first called, or gives the verdict that says why it cannot."""
    return functools.cache(functools.partial(open_or_verdict, source, options))


def judge_claim(candidate: Candidate, claim: Claim, options: Options, part: str = "") -> Row:
    """Return the row of one claim: an error of the base becomes its verdict, an error of the candidate is raised.

    `part` is the folder in which the candidate is.
    """
    if claim.problem:
        return Row(claim, Verdict(Kind.UNVERIFIABLE, f"{claim.problem}{claim.remedy}"))
    usual = candidate()
    if isinstance(usual, Verdict):
        return Row(claim, usual)
    source = attempt(lambda: base_of(claim, options.local_hub, part), *VERDICTS)
    if isinstance(source, Verdict):
        return Row(claim, source)
    reached = reach(source, usual, options, part)
    base = reached.base
    if isinstance(base, OpenedModel) and base.identity == usual.identity is not None and claim.sources != NAMED:
        return Row(claim, Verdict(Kind.UNVERIFIABLE, "the model declares itself as its base"), source.commit)
    row = judge_pair(claim, base, candidate, options, source.commit)
    return replace(
        row,
        verdict=through(row.verdict, reached.steps),
        base_commit=source.commit if reached.steps else row.base_commit,
        steps=reached.steps,
        notes=(*row.notes, *reached.notes),
    )


def as_merge(rows: Sequence[Row], min_share: float) -> tuple[Row, ...]:
    """Return all rows, in which the parents that a merge declares are judged together."""
    merged = [row.claim.relation == MERGE for row in rows]
    outcomes = iter(judge_merge([row.verdict for row, one in zip(rows, merged, strict=True) if one], min_share))
    pairs = zip(rows, merged, strict=True)
    return tuple(replace(row, verdict=_saying(next(outcomes), row.own_code)) if one else row for row, one in pairs)


def _saying(outcome: Verdict, sentences: Sequence[str]) -> Verdict:
    """A verdict whose reason holds these sentences."""
    missing = (sentence for sentence in sentences if sentence not in outcome.reason)
    return replace(outcome, reason="; ".join(filter(None, (outcome.reason, *missing))))


def judge_pair(
    claim: Claim,
    base: OpenedModel | Verdict,
    candidate: Candidate,
    options: Options,
    commit: str | None = None,
) -> Row:
    """Return the row of a claim on two models; `commit` is that of a base that could not be opened."""
    other = candidate()
    outcome, notes = judged_every_way(base, other, options)
    opened_base, opened_candidate = both = [
        model if isinstance(model, OpenedModel) else None for model in (base, other)
    ]
    brought = tuple(f"{model.name}: {model.own_code}" for model in both if model and model.own_code)
    return Row(
        claim,
        _saying(outcome, brought),
        own_code=brought,
        base_commit=opened_base.commit if opened_base else commit,
        layers=opened_candidate.layers if opened_candidate else None,
        traffic={model.name: done for model in both if model and (done := model.downloads())},
        base_origin=opened_base.origin if opened_base else None,
        model_origin=opened_candidate.origin if opened_candidate else None,
        notes=notes,
        derivation=derived(base, other, outcome, options.order_seed or 0),
        base_folder=_folder(opened_base),
        licence=opened_base.licence if opened_base else None,
    )


def _folder(base: OpenedModel | None) -> RepoRef | None:
    return base.opened.described.repo if isinstance(base, FromWeights) and base.local else None


def base_of(claim: Claim, local_hub: Path | None, part: str = "") -> RepoRef | Signature:
    """Return the source of a base: what a repository declares is a name on the Hub, never a folder of this machine."""
    return counterpart(whole_base(claim, local_hub), part)


def whole_base(claim: Claim, local_hub: Path | None) -> RepoRef | Signature:
    """Return the repository of a base, of which a folder may be meant; otherwise as `base_of`."""
    named = claim.sources == NAMED
    try:
        return locate(claim.base, local_hub) if named else resolve(claim.base, local_hub, folders=False)
    except (RepositoryError, NetworkError) as error:
        raise type(error)(f"{error}{claim.remedy}") from None


def judge_parts(
    parts: Parts, candidates: Mapping[str, Candidate], claims: Sequence[Claim], options: Options
) -> Iterator[Row]:
    """Yield the rows of every claim on the folders of a repository, given the candidate in each.

    A folder that the base does not have and that cannot be judged is a note where another one can; what no
    factorization reads is one row, unless its files are those of the base.
    """
    for claim in claims:
        rows = [
            replace(judge_claim(candidate, claim, options, part), part=part) for part, candidate in candidates.items()
        ]
        base = None if claim.problem else attempt(functools.partial(whole_base, claim, options.local_hub), *VERDICTS)
        judged = [row for row in rows if row.verdict.kind is not Kind.UNVERIFIABLE or _has(base, row.part)]
        judged = judged if any(row.verdict.kind is not Kind.UNVERIFIABLE for row in judged) else rows
        left_out = (
            f"{row.part} was not judged: {row.verdict.reason}" for row in rows if not any(row is one for one in judged)
        )
        notes = (*parts.notes, *left_out)
        yield from (replace(row, notes=(*row.notes, *notes)) for row in judged)
        if names := [f"{part} ({name})" for part, name in parts.others.items() if not _is_of(base, parts, part)]:
            reason = f"parts that are not read may come from elsewhere: {printable(', '.join(names), 500)}"
            yield Row(claim, Verdict(Kind.UNVERIFIABLE, reason))


def _has(base: object, part: str) -> bool:
    """Whether a base has a folder of its own for a part."""
    return isinstance(base, RepoRef) and base.offers(f"{part}/{CONFIG}")


def _is_of(base: object, parts: Parts, part: str) -> bool:
    """Whether a part that is not read is the base's, byte for byte; not if that cannot be told."""
    if not isinstance(base, RepoRef) or not _has(base, part):
        return False
    root = replace(parts.models[0], subfolder="")
    same = attempt(lambda: unchanged(part_of(root, part), part_of(base, part)), *VERDICTS)
    return same is True
