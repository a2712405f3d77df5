"""Claims: each claim about a model is judged; an error of a base is the verdict of its row."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.architecture.registry import listing
from hf_lineage.checking.declared import names_in, relation_notes
from hf_lineage.checking.relation import derived
from hf_lineage.checking.result import MERGE, NAMED, VERDICTS, Row, attempt
from hf_lineage.checking.stages import file_notes, judge_models
from hf_lineage.checkpoint.foreign import WEIGHT_FILES
from hf_lineage.claims.sources import Claim, read_claims, stated
from hf_lineage.errors import (
    CheckpointError,
    NetworkError,
    NothingToCompare,
    RepositoryError,
    UnlistedClass,
    printable,
)
from hf_lineage.evidence.evaluate import as_related, judge_merge
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import named_class
from hf_lineage.source.contents import CONFIG, adapter_folders, counterpart
from hf_lineage.source.locate import locate
from hf_lineage.source.model import FromWeights, OpenedModel, open_candidate, open_model
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.checking.report import Blended


FITTED = {
    False: "a copy of {} in a rotated stream with another embedding was not searched for because the model itself "
    "declares this base; --budget full searches for it",
    True: "a copy of {} in a rotated stream with another embedding was searched for, and not found",
}
"""Sentence about the test that takes most of the time of an UNRELATED, by whether it was made."""
COPY = (
    "the same bytes: all files with weights are those of the base, and so is config.json; nothing was compared, for {}"
)
Source = RepoRef | Signature
"""A repository, or the signature that stands for a model."""
Candidate = Callable[[], OpenedModel | Verdict]
"""The candidate, opened; or the verdict that says why there is nothing to compare."""
Base = Callable[[], Source | Verdict]
"""The repository of a base; or the verdict that says why there is none."""


def opened_once(source: RepoRef | Signature, options: Options) -> Candidate:
    """Return what opens a candidate when it is first called, or gives the verdict that says why it cannot."""
    return functools.cache(lambda: attempt(lambda: open_candidate(source, options), NothingToCompare))


def base_once(claim: Claim, local_hub: Path | None) -> Base:
    """Return what finds the repository of a base when it is first called, or gives the verdict that says why not."""
    return functools.cache(lambda: attempt(lambda: whole_base(claim, local_hub), *VERDICTS))


def judge_claim(candidate: Candidate, claim: Claim, options: Options, part: str = "", base: Base | None = None) -> Row:
    """Return the row of one claim: an error of the base becomes its verdict, an error of the candidate is raised.

    `part` is the folder in which the candidate is; `base` finds the repository of the base where several ask for it.
    """
    if claim.problem:
        return Row(claim, Verdict(Code.NO_BASE, f"{claim.problem}{claim.remedy}"), part=part)
    usual = candidate()
    if isinstance(usual, Verdict):
        return Row(claim, usual, part=part)
    whole = (base or base_once(claim, options.local_hub))()
    source = whole if isinstance(whole, Verdict) else attempt(lambda: counterpart(whole, part), *VERDICTS)
    if isinstance(source, Verdict):
        return Row(claim, source, part=part)
    model = _open_base(source, options)
    if isinstance(model, OpenedModel) and model.identity == usual.identity is not None and claim.sources != NAMED:
        itself = Verdict(Code.NO_BASE, "the model declares itself, and a model cannot be its own base")
        return Row(claim, itself, source.commit, part=part)
    row = judge_pair(claim, model, candidate, options, part, source.commit)
    return replace(row, notes=(*row.notes, *_renamed(source)))


def _open_base(source: RepoRef | Signature, options: Options) -> OpenedModel | Verdict:
    """Return a base; or why nothing is compared, with the base that it declares, which may be named instead."""
    try:
        return attempt(lambda: open_model(source, options), RepositoryError, CheckpointError)
    except NothingToCompare as error:
        further = "" if isinstance(error, UnlistedClass) or isinstance(source, Signature) else _declared(source)
        return Verdict(Code(error.code), f"{error}{further}")


def _declared(source: RepoRef) -> str:
    """Return the remedy for a base that declares one base itself; empty for any other."""
    claims = attempt(lambda: read_claims(replace(source, subfolder="")).claims, *VERDICTS)
    if isinstance(claims, Verdict) or len(claims) != 1 or claims[0].problem:
        return ""
    return f"; name its base: --base {shlex.quote(printable(claims[0].base, 200))}"


def _renamed(source: RepoRef | Signature) -> tuple[str, ...]:
    """Return a sentence about a base that has another name on the Hub today."""
    if not isinstance(source, RepoRef) or source.renamed is None:
        return ()
    old, new = printable(source.remote, 200), printable(source.renamed, 200)
    return (f"the Hub leads from {old} to {new}, and {new} was compared: name it in the card",)


def as_merge(rows: Sequence[Row], min_share: float) -> tuple[Row, ...]:
    """Return all rows, in which the parents that a merge declares are judged together."""
    merged = [row.claim.relation == MERGE for row in rows]
    outcomes = iter(judge_merge([row.verdict for row, one in zip(rows, merged, strict=True) if one], min_share))
    pairs = zip(rows, merged, strict=True)
    return tuple(replace(row, verdict=_saying(next(outcomes), row.own_code)) if one else row for row, one in pairs)


def _saying(outcome: Verdict, sentences: Sequence[str]) -> Verdict:
    """Return a verdict whose reason holds these sentences."""
    missing = (sentence for sentence in sentences if sentence not in outcome.reason)
    return replace(outcome, reason="; ".join(filter(None, (outcome.reason, *missing))))


def judge_pair(
    claim: Claim,
    base: OpenedModel | Verdict,
    candidate: Candidate,
    options: Options,
    part: str = "",
    commit: str | None = None,
) -> Row:
    """Return the row of a claim on two models; `commit` is that of a base of which nothing can be compared."""
    other = candidate()
    outcome = judge_models(base, other, options, claim.sources != NAMED)
    if options.run:
        from hf_lineage.checking.executed import judge_executed

        outcome = judge_executed(base, other, outcome, options)
    if options.strict:
        from hf_lineage.checking.strict import judge_strict

        outcome = judge_strict(base, other, outcome)
    opened_base, opened_candidate = (one if isinstance(one, OpenedModel) else None for one in (base, other))
    both = [model for model in (opened_base, opened_candidate) if model]
    brought = tuple(f"{model.name}: {model.own_code}" for model in both if model.own_code)
    return Row(
        claim,
        _saying(outcome, brought),
        own_code=brought,
        base_commit=opened_base.commit if opened_base else commit,
        layers=opened_candidate.layers if opened_candidate else None,
        traffic={model.name: done for model in both if (done := model.downloads())},
        base_origin=opened_base.origin if opened_base else None,
        model_origin=opened_candidate.origin if opened_candidate else None,
        notes=(*file_notes(base, other), *_unsearched(claim, outcome, options)),
        part=part,
        derivation=derived(base, other, outcome, options.seed or 0),
        base_folder=base.opened.described.repo if isinstance(base, FromWeights) and base.local else None,
        licence=stated(opened_base.repo) if opened_base else "",
        opened=opened_base,
    )


def _unsearched(claim: Claim, outcome: Verdict, options: Options) -> Iterator[str]:
    """Yield a sentence about the search for a copy in another stream, where it was left out or all was searched."""
    searched = outcome.framed.searched if outcome.code is Code.UNRELATED and outcome.framed else None
    if searched is False or (searched and options.budget == "full"):
        yield FITTED[searched].format(printable(claim.base, 200))


def whole_base(claim: Claim, local_hub: Path | None) -> RepoRef | Signature:
    """Return the repository of a base: what another one declares is a name on the Hub, never a folder of this machine.

    Of the repository a folder may be meant.
    """
    named = claim.sources == NAMED
    try:
        return locate(claim.base, local_hub) if named else resolve(claim.base, local_hub, folders=False)
    except (RepositoryError, NetworkError) as error:
        raise type(error)(f"{error}{claim.remedy}") from None


@dataclass(frozen=True)
class RepositoryResult:
    """Judgement of a repository, or of one thing in it: a row for each claim, and sentences about the repository."""

    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    blended: Blended | None = None
    """The model beside the bases that are claimed, if there are several whose weights are at hand."""


@dataclass(frozen=True)
class CheckRequest:
    """Question about a model: whether it comes from the bases that are claimed."""

    claims: Sequence[Claim]
    options: Options
    by_user: bool
    """Whether the user named the bases, and not the model."""

    @property
    def bases(self) -> list[tuple[Claim, Base]]:
        """Each claim with what finds the repository of its base, once."""
        return [(claim, base_once(claim, self.options.local_hub)) for claim in self.claims]


@dataclass(frozen=True)
class CompareRequest:
    """Question about one model after the other: whether it comes from one base, whatever it declares."""

    claim: Claim
    base: Source
    options: Options
    opened: Callable[[str], OpenedModel | Verdict]
    """Opens the model in a folder of the base, or the only one; each is opened once."""

    @property
    def bases(self) -> list[tuple[Claim, Base]]:
        """The claim with what gives its base, which was found before."""
        return [(self.claim, lambda: self.base)]


def check_signature(signature: Signature, request: CheckRequest) -> RepositoryResult:
    """Return whether a stored signature comes from the bases that are claimed."""
    return RepositoryResult(_judge_claims(opened_once(signature, request.options), request))


def check_model(repo: RepoRef, request: CheckRequest) -> RepositoryResult:
    """Return whether a model comes from the bases that are claimed."""
    candidate, blended = opened_once(repo, request.options), None
    opened = candidate()
    rows = _judge_claims(candidate, request, repo.subfolder)
    if len(rows) > 1:
        from hf_lineage.checking.merge import with_shares

        rows, blended = with_shares(repo, rows, opened, names_in(repo), request.options)
    rows = tuple(_same_bytes(row, repo, request.options) for row in rows)
    return RepositoryResult(rows, (*relation_notes(request.claims, repo, opened), *_adapters_in_folders(repo)), blended)


def _judge_claims(candidate: Candidate, request: CheckRequest, part: str = "") -> tuple[Row, ...]:
    """Return the rows of all claims, the parents of a merge judged together."""
    rows = [judge_claim(candidate, claim, request.options, part) for claim in request.claims]
    return as_merge(rows, request.options.min_share)


def _same_bytes(row: Row, repo: RepoRef, options: Options) -> Row:
    """Return a row, RELATED where nobody listed the model's class, and its files are those of the base."""
    name = named_class(repo.config()) if repo.has(CONFIG) else None
    if row.claim.problem or not row.verdict.code.is_unjudged or not name or any(listing(name)):
        return row
    base = base_once(row.claim, options.local_hub)()
    if not isinstance(base, RepoRef) or base.identity == repo.identity or not is_copy(repo, base):
        return row
    same = COPY.format(row.verdict.reason)
    return replace(row, verdict=as_related(Code.LISTED, same, options.criteria(analyses=1)))


def is_copy(part: RepoRef, base: RepoRef) -> bool:
    """Return whether a part equals that of the base, byte for byte; no if that is not known."""
    return attempt(lambda: _is_unchanged(part, base), *VERDICTS) is True


def _is_unchanged(part: RepoRef, base: RepoRef) -> bool:
    """Return whether a part has the weights of its counterpart, byte for byte, its settings and code."""
    ends = (*WEIGHT_FILES, ".py")
    files, alike = ([name for name in one.files() if name == CONFIG or name.endswith(ends)] for one in (part, base))
    weights = any(name.endswith(WEIGHT_FILES) for name in files)
    return weights and files == alike and all(part.sha256(name) == base.sha256(name) for name in files)


def _adapters_in_folders(source: Source) -> Iterator[str]:
    """Yield a sentence about adapters in folders beside a model."""
    folders = adapter_folders(source) if isinstance(source, RepoRef) and not source.subfolder else []
    if len(folders) == 1:
        yield f"{folders[0]}/ holds an adapter that was not judged: check it by itself"
    elif folders:
        yield f"{folders[0]}/ and {len(folders) - 1} more hold adapters that were not judged: check each by itself"


def compare_model(source: Source, request: CompareRequest) -> RepositoryResult:
    """Return whether a model, or the signature that stands for one, comes from one base."""
    part = source.subfolder if isinstance(source, RepoRef) else ""
    candidate = opened_once(source, request.options)
    row = judge_pair(request.claim, request.opened(part), candidate, request.options, part)
    return RepositoryResult((row,), tuple(_adapters_in_folders(source)))
