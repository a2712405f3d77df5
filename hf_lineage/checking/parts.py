"""Models in the folders of a repository that is none itself, and parts of one model: each is judged by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hf_lineage.checking.claims import (
    RepositoryResult,
    Request,
    Source,
    is_copy,
    judge_claim,
    judge_pair,
    opened_candidate,
)
from hf_lineage.checking.declared import relation_notes
from hf_lineage.checking.result import VERDICTS, ClaimResult, ModelOrVerdict, catch_as_verdict
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.contents import CONFIG, Folders, part_of


def judge_folders(folders: Folders, request: Request) -> RepositoryResult:
    """Return whether the models in folders come from the bases that are claimed."""
    if open_base := request.open_base:
        claim, options, rows = request.claims[0], request.options, list[ClaimResult]()
        for model in folders.models:
            base, candidate = open_base(model.subfolder), opened_candidate(model, options)
            rows.append(judge_pair(claim, base, candidate, options, model.file or model.subfolder))
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


def judge_components(parts: Sequence[RepoRef], request: Request) -> RepositoryResult:
    """Return a row for each part of a model and each base, and a sentence for each part that a base does not have."""
    rows, notes = list[ClaimResult](), dict[str, None]()
    claims = [claim for claim in request.claims if not claim.problem]
    for part in parts:
        for claim in claims:
            base = _fitting(part, request.base_of(claim))
            if isinstance(base, Verdict):
                notes[f"{part.part} was not looked at: {base.reason}"] = None
            else:
                rows.append(_judge_part(part, claim, base, request))
    return RepositoryResult(tuple(rows), tuple(notes))


def judge_named(part: RepoRef, request: Request) -> RepositoryResult:
    """Return whether a part that is named comes from the fitting part of each base."""
    bases = [(claim, _fitting(part, request.base_of(claim))) for claim in request.claims]
    return RepositoryResult(tuple(_judge_part(part, claim, base, request) for claim, base in bases))


def _fitting(part: RepoRef, base: Source | Verdict) -> Source | Verdict:
    """Return the part of a base that a part is compared with, or the verdict that says why there is none."""
    from hf_lineage.source.config import fitting_part

    return base if isinstance(base, Verdict) else catch_as_verdict(lambda: fitting_part(base, part), *VERDICTS)


def _judge_part(part: RepoRef, claim: Claim, base: Source | Verdict, request: Request) -> ClaimResult:
    row = judge_claim(opened_candidate(part, request.options), claim, request, part.part, base)
    return replace(row, notes=(*row.notes, f"{part.part}: its use by the rest of the model was not judged"))
