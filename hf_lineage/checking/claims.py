"""Claims: each about a model, about those in folders, and about parts is judged; an error of a base is a verdict."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.architecture.registry import listing
from hf_lineage.checking.declared import names_in, relation_notes
from hf_lineage.checking.relation import measure_derivation
from hf_lineage.checking.result import NAMED, VERDICTS, ClaimResult, ModelOrVerdict, catch_as_verdict, error_as_verdict
from hf_lineage.checking.stages import judge_models
from hf_lineage.checkpoint.weight_files import WEIGHT_FILES
from hf_lineage.claims.sources import Claim, read_claims, stated_licence
from hf_lineage.errors import NetworkError, NothingToCompare, RepositoryError, UnlistedClass, printable
from hf_lineage.evidence.evaluate import as_related, judge_merge
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import fitting_part, named_class
from hf_lineage.source.contents import CONFIG, Folders, adapter_beside, adapter_folders, counterpart, part_of
from hf_lineage.source.locate import locate
from hf_lineage.source.model import FromWeights, OpenedModel, open_model
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.checking.report import Combination


Source = RepoRef | Signature  # A repository, or the signature that stands for a model


@dataclass(frozen=True)
class Request:
    """Question about a repository: whether what it holds comes from the bases that are claimed."""

    claims: Sequence[Claim]
    options: Options
    by_user: bool = True  # Whether the user named the bases, and not the model
    open_base: Callable[[str], ModelOrVerdict] | None = None  # Opens a model of the one base that is compared
    bases: dict[Claim, Source | Verdict] = field(default_factory=dict)  # Those that were found so far

    def base_of(self, claim: Claim) -> Source | Verdict:
        """Return the repository of a base, found once, or the verdict that says why there is none."""
        if claim not in self.bases:
            self.bases[claim] = catch_as_verdict(lambda: whole_base(claim, self.options.local_hub), *VERDICTS)
        return self.bases[claim]


@dataclass(frozen=True)
class RepositoryResult:
    """Judgement of a repository, or of one thing in it: a row for each claim, and sentences about the repository."""

    rows: tuple[ClaimResult, ...] = ()
    notes: tuple[str, ...] = ()
    blended: Combination | None = None  # The model beside the bases, if several have their weights at hand

    def __add__(self, other: RepositoryResult) -> RepositoryResult:
        return RepositoryResult(self.rows + other.rows, self.notes + other.notes, self.blended or other.blended)


def judge_model(source: Source, request: Request) -> RepositoryResult:
    """Return whether a model, or the signature that stands for one, comes from the bases that are claimed."""
    part, options, blended = source.subfolder if isinstance(source, RepoRef) else "", request.options, None
    if request.open_base:
        base = request.open_base(part)
        row = judge_pair(request.claims[0], base, opened_candidate(source, options), options, part, None)
        return RepositoryResult((row,), tuple(_adapters_in_folders(source)))
    candidate = opened_candidate(source, options)
    rows = tuple([judge_claim(candidate, claim, request, part) for claim in request.claims])
    rows = as_merge(rows, options.min_share)
    if isinstance(source, Signature):
        return RepositoryResult(rows)
    if len(rows) > 1:
        from hf_lineage.checking.merge import with_shares

        rows, blended = with_shares(source, rows, candidate, names_in(source), options)
    notes = *relation_notes(request.claims, source, candidate), *_adapters_in_folders(source)
    return RepositoryResult(tuple(_same_bytes(row, source, request) for row in rows), notes, blended)


def opened_candidate(source: Source, options: Options) -> ModelOrVerdict:
    """Return a candidate, or the verdict that says why there is nothing to compare."""
    model = catch_as_verdict(lambda: open_model(source, options), NothingToCompare)
    if isinstance(model, OpenedModel) and isinstance(source, RepoRef) and adapter_beside(source):
        beside = f"{source} holds an adapter beside its weights, which transformers applies where peft is installed"
        return Verdict(Code.AMBIGUOUS, f"{beside}: merge it into the weights, or remove it")
    return model


def judge_claim(
    candidate: ModelOrVerdict, claim: Claim, request: Request, part: str = "", whole: Source | Verdict | None = None
) -> ClaimResult:
    """Return the row of a claim on a candidate in the folder `part`; `whole` is a base's repository, if known."""
    if claim.problem:
        return ClaimResult(claim, Verdict(Code.NO_BASE, f"{claim.problem}{claim.remedy}"), part=part)
    if isinstance(candidate, Verdict):
        return ClaimResult(claim, candidate, part=part)
    repo = whole or request.base_of(claim)
    source = repo if isinstance(repo, Verdict) else catch_as_verdict(lambda: counterpart(repo, part), *VERDICTS)
    if isinstance(source, Verdict):
        return ClaimResult(claim, source, part=part)
    model = _open_base(source, request.options)
    if isinstance(model, OpenedModel) and model.identity == candidate.identity is not None and claim.sources != NAMED:
        itself = Verdict(Code.NO_BASE, "the model declares itself, and a model cannot be its own base")
        return ClaimResult(claim, itself, source.commit, part=part)
    row = judge_pair(claim, model, candidate, request.options, part, source.commit)
    if isinstance(source, Signature) or source.new_name is None:
        return row
    old, new = printable(source.remote, 200), printable(source.new_name, 200)
    renamed = f"the Hub leads from {old} to {new}, and {new} was compared: name it in the card"
    return replace(row, notes=(*row.notes, renamed))


def _open_base(source: Source, options: Options) -> ModelOrVerdict:
    """Return a base; or why nothing is compared, with the one base that it declares, which may be named instead."""
    try:
        return open_model(source, options)
    except VERDICTS as error:
        outcome, is_unlisted = error_as_verdict(error), isinstance(error, UnlistedClass)
        if not isinstance(error, NothingToCompare) or is_unlisted or isinstance(source, Signature):
            return outcome
    claims = catch_as_verdict(lambda: read_claims(replace(source, subfolder="")).claims, *VERDICTS)
    if isinstance(claims, Verdict) or len(claims) != 1 or claims[0].problem:
        return outcome
    own = shlex.quote(printable(claims[0].base, 200))
    return replace(outcome, reason=f"{outcome.reason}; name its base: --base {own}")


def as_merge(rows: Sequence[ClaimResult], min_share: float) -> tuple[ClaimResult, ...]:
    """Return all rows, in which the parents that a merge declares are judged together."""
    merged = [row for row in rows if row.claim.relation == "merge"]
    outcomes = zip(merged, judge_merge([row.verdict for row in merged], min_share), strict=True)
    judged = {id(row): replace(row, verdict=_saying(outcome, row.own_code)) for row, outcome in outcomes}
    return tuple(judged.get(id(row), row) for row in rows)


def _saying(outcome: Verdict, sentences: Sequence[str]) -> Verdict:
    missing = (sentence for sentence in sentences if sentence not in outcome.reason)
    return replace(outcome, reason="; ".join(filter(None, (outcome.reason, *missing))))


def judge_pair(
    claim: Claim, base: ModelOrVerdict, candidate: ModelOrVerdict, options: Options, part: str, commit: str | None
) -> ClaimResult:
    """Return the row of a claim on two models; `commit` is that of a base of which nothing can be compared."""
    outcome = judge_models(base, candidate, options, claim.sources != NAMED)
    if options.run:
        from hf_lineage.checking.executed import judge_executed

        outcome = judge_executed(base, candidate, outcome, options)
    if options.strict:
        from hf_lineage.checking.strict import judge_strict

        outcome = judge_strict(base, candidate, outcome)
    opened_base, opened = (model if isinstance(model, OpenedModel) else None for model in (base, candidate))
    origins = opened_base.origin if opened_base else None, opened.origin if opened else None
    both = [model for model in (opened_base, opened) if model]
    brought = tuple(f"{model.name}: {model.own_code}" for model in both if model.own_code)
    unread = (f"{model.name}: {note}" for model in both if opened for note in model.notes)
    commit, layers = opened_base.commit if opened_base else commit, opened.layers if opened else None
    traffic = {model.name: done for model in both if (done := model.downloads())}
    derivation = measure_derivation(base, candidate, outcome, options.seed or 0)
    notes = (*unread, *_describe_search(claim, outcome, options))
    folder = base.headers.model_config.repo if isinstance(base, FromWeights) and base.local else None
    licence = stated_licence(opened_base.repo) if opened_base else ""
    row = ClaimResult(claim, _saying(outcome, brought), commit, layers, traffic, *origins, notes, part)
    row = replace(row, own_code=brought, base_model=opened_base)
    return replace(row, derivation=derivation, base_folder=folder, licence=licence)


def _describe_search(claim: Claim, outcome: Verdict, options: Options) -> Iterator[str]:
    """Yield a sentence about the test that takes most of the time of an UNRELATED, where that was left out or made."""
    searched = outcome.unit_comparison.searched if outcome.code is Code.UNRELATED and outcome.unit_comparison else None
    copy = f"a copy of {printable(claim.base, 200)} in a rotated stream with another embedding was"
    if searched is False:
        yield f"{copy} not searched for because the model itself declares this base; --budget full searches for it"
    elif searched and options.budget == "full":
        yield f"{copy} searched for, and not found"


def whole_base(claim: Claim, local_hub: Path | None) -> Source:
    """Return a base: what another repository declares is a name on the Hub, and never a folder of this machine."""
    try:
        if claim.sources == NAMED:
            return locate(claim.base, local_hub)
        return resolve(claim.base, local_hub, folders=False)
    except (RepositoryError, NetworkError) as error:
        raise type(error)(f"{error}{claim.remedy}") from None


def _same_bytes(row: ClaimResult, repo: RepoRef, request: Request) -> ClaimResult:
    """Return a row, RELATED where nobody listed the model's class, and its files are those of the base."""
    name = named_class(repo.config()) if repo.has(CONFIG) else None
    if row.claim.problem or not row.verdict.code.is_unjudged or not name or any(listing(name)):
        return row
    base = request.base_of(row.claim)
    if not isinstance(base, RepoRef) or base.identity == repo.identity or not is_copy(repo, base):
        return row
    same = "the same bytes: all files with weights are those of the base, and so is config.json; nothing was compared"
    outcome = as_related(Code.LISTED, f"{same}, for {row.verdict.reason}", request.options.criteria(analyses=1))
    return replace(row, verdict=outcome)


def is_copy(part: RepoRef, base: RepoRef) -> bool:
    """Return whether a part has the weights, settings and code of its counterpart, byte for byte; no if not known."""
    ends = (*WEIGHT_FILES, ".py")
    try:
        files, alike = ([name for name in one.files() if name == CONFIG or name.endswith(ends)] for one in (part, base))
        weights = any(name.endswith(WEIGHT_FILES) for name in files)
        return weights and files == alike and all(part.sha256(name) == base.sha256(name) for name in files)
    except VERDICTS:
        return False


def _adapters_in_folders(source: Source) -> Iterator[str]:
    folders = adapter_folders(source) if isinstance(source, RepoRef) and not source.subfolder else []
    if len(folders) == 1:
        yield f"{folders[0]}/ holds an adapter that was not judged: check it by itself"
    elif folders:
        yield f"{folders[0]}/ and {len(folders) - 1} more hold adapters that were not judged: check each by itself"


def judge_folders(folders: Folders, request: Request) -> RepositoryResult:
    """Return whether the models in folders come from the bases that are claimed."""
    if open_base := request.open_base:
        claim, options, rows = request.claims[0], request.options, list[ClaimResult]()
        for model in folders.models:
            base, candidate = open_base(model.subfolder), opened_candidate(model, options)
            rows.append(judge_pair(claim, base, candidate, options, model.file or model.subfolder, None))
        return RepositoryResult(tuple(rows))
    opened = [(model, opened_candidate(model, request.options)) for model in folders.models]
    notes = [relation_notes(request.claims, repo, model) for repo, model in opened]
    of_all = (note for note in notes[0] if all(note in others for others in notes))  # one that is quantized is enough
    rows = [row for claim in request.claims for row in _judge(folders, opened, claim, request)]
    return RepositoryResult(tuple(rows), tuple(of_all))


def _judge(
    folders: Folders, candidates: Sequence[tuple[RepoRef, ModelOrVerdict]], claim: Claim, request: Request
) -> Iterator[ClaimResult]:
    """Yield the rows of a claim on folders: one that is not judged, nor in the base, is a note beside others."""
    rows = [judge_claim(candidate, claim, request, model.file or model.subfolder) for model, candidate in candidates]
    base = None if claim.problem else request.base_of(claim)
    repo = base if isinstance(base, RepoRef) else None

    def has(part: str) -> bool:
        return repo is not None and repo.offers(f"{part}/{CONFIG}")

    every = folders.models[0].each  # the user asks for each of these files
    usable = [row for row in rows if every or not row.verdict.code.is_unjudged or has(row.part)]
    usable = usable if any(not row.verdict.code.is_unjudged for row in usable) else rows
    left = (f"{row.part} was not judged: {row.verdict.reason}" for row in rows if not any(row is one for one in usable))
    notes = (*folders.notes, *left)
    yield from (replace(row, notes=(*row.notes, *notes)) for row in usable)
    whole = replace(folders.models[0], subfolder="")
    known = [part for part in folders.others if has(part)]
    equal = {part for part in known if repo and is_copy(part_of(whole, part), part_of(repo, part))}
    if names := [f"{part} ({name})" for part, name in folders.others.items() if part not in equal]:
        reason = f"parts that were not read may come from elsewhere: {printable(', '.join(names), 500)}"
        yield ClaimResult(claim, Verdict(Code.UNSUPPORTED, reason))


def judge_components(parts: Sequence[RepoRef], request: Request, by_name: bool = False) -> RepositoryResult:
    """Return a row for each part and each base; what a base lacks is a note, or a row where the user named it."""
    rows, notes = list[ClaimResult](), dict[str, None]()
    for part, claim in itertools.product(parts, request.claims):
        if claim.problem and not by_name:
            continue
        whole = request.base_of(claim)
        base = whole if isinstance(whole, Verdict) else catch_as_verdict(partial(fitting_part, whole, part), *VERDICTS)
        if isinstance(base, Verdict) and not by_name:
            notes[f"{part.part} was not looked at: {base.reason}"] = None
            continue
        row = judge_claim(opened_candidate(part, request.options), claim, request, part.part, base)
        rows.append(replace(row, notes=(*row.notes, f"{part.part}: its use by the rest of the model was not judged")))
    return RepositoryResult(tuple(rows), tuple(notes))
