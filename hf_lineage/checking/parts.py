"""Models in the folders of a repository that is none itself, and parts of one model: each is judged by itself.

What is not read of the folders is a row as well; a part that was not looked at is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hf_lineage.checking.claims import (
    Base,
    Candidate,
    CheckRequest,
    CompareRequest,
    RepositoryResult,
    Source,
    is_copy,
    judge_claim,
    judge_pair,
    opened_once,
)
from hf_lineage.checking.declared import notes_of_all
from hf_lineage.checking.result import VERDICTS, Row, attempt
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.source.contents import CONFIG, Folders, part_of
from hf_lineage.source.options import Options

NOT_JUDGED = "its use by the rest of the model was not judged"
"""Reservation in every row about a part."""


def check_folders(folders: Folders, request: CheckRequest) -> RepositoryResult:
    """Return whether the models in folders come from the bases that are claimed."""
    candidates = [(model, opened_once(model, request.options)) for model in folders.models]
    notes = notes_of_all(request.claims, [(model, candidate()) for model, candidate in candidates])
    rows = (row for claim, base in request.bases for row in _judge(folders, candidates, claim, base, request.options))
    return RepositoryResult(tuple(rows), notes)


def _judge(
    folders: Folders, candidates: Sequence[tuple[RepoRef, Candidate]], claim: Claim, find_base: Base, options: Options
) -> Iterator[Row]:
    """Yield the rows of a claim on the folders of a repository, given the candidate in each.

    A folder that cannot be judged and that the base does not have is a note if another folder can be judged. All parts
    that no factorization reads make one row, unless their files are those of the base.
    """
    rows = [judge_claim(candidate, claim, options, _name(model), find_base) for model, candidate in candidates]
    base = None if claim.problem else find_base()
    every = folders.models[0].each  # the user asks for each of these files
    judged = [row for row in rows if every or not row.verdict.code.is_unjudged or _has(base, row.part)]
    judged = judged if any(not row.verdict.code.is_unjudged for row in judged) else rows
    left = (f"{row.part} was not judged: {row.verdict.reason}" for row in rows if not any(row is one for one in judged))
    notes = (*folders.notes, *left)
    yield from (replace(row, notes=(*row.notes, *notes)) for row in judged)
    if names := [f"{part} ({name})" for part, name in folders.others.items() if not _is_of(base, folders, part)]:
        reason = f"parts that were not read may come from elsewhere: {printable(', '.join(names), 500)}"
        yield Row(claim, Verdict(Code.UNSUPPORTED, reason))


def _name(model: RepoRef) -> str:
    """Return the folder or the file by which a row names a model."""
    return model.file or model.subfolder


def _has(base: object, part: str) -> bool:
    """Return whether a base has a folder of its own for a part."""
    return isinstance(base, RepoRef) and base.offers(f"{part}/{CONFIG}")


def _is_of(base: object, folders: Folders, part: str) -> bool:
    """Return whether a part that is not read equals that of the base, byte for byte; no if that is not known."""
    if not isinstance(base, RepoRef) or not _has(base, part):
        return False
    return is_copy(part_of(replace(folders.models[0], subfolder=""), part), part_of(base, part))


def compare_folders(folders: Folders, request: CompareRequest) -> RepositoryResult:
    """Return whether the models in folders come from one base."""

    def judge(model: RepoRef) -> Row:
        base, candidate = request.opened(model.subfolder), opened_once(model, request.options)
        return judge_pair(request.claim, base, candidate, request.options, _name(model))

    return RepositoryResult(tuple(map(judge, folders.models)))


def judge_named(part: RepoRef, request: CheckRequest | CompareRequest) -> RepositoryResult:
    """Return whether a part that is named comes from the fitting part of each base."""
    rows = (_row(part, claim, _fitting(part, find_base()), request.options) for claim, find_base in request.bases)
    return RepositoryResult(tuple(rows))


def judge_components(parts: Sequence[RepoRef], request: CheckRequest | CompareRequest) -> RepositoryResult:
    """Return a row for each part of a model and each base, and a sentence for each part that a base does not have."""
    rows, notes = list[Row](), dict[str, None]()
    bases = [(claim, find_base) for claim, find_base in request.bases if not claim.problem]
    for part in parts:
        for claim, find_base in bases:
            base = _fitting(part, find_base())
            if isinstance(base, Verdict):
                notes[f"{part.part} was not looked at: {base.reason}"] = None
            else:
                rows.append(_row(part, claim, base, request.options))
    return RepositoryResult(tuple(rows), tuple(notes))


def _fitting(part: RepoRef, base: Source | Verdict) -> Source | Verdict:
    """Return the part of a base that a part is compared with, or the verdict that says why there is none."""
    from hf_lineage.source.config import fitting_part

    return base if isinstance(base, Verdict) else attempt(lambda: fitting_part(base, part), *VERDICTS)


def _row(part: RepoRef, claim: Claim, base: Source | Verdict, options: Options) -> Row:
    row = judge_claim(opened_once(part, options), claim, options, part.part, lambda: base)
    return replace(row, notes=(*row.notes, f"{part.part}: {NOT_JUDGED}"))
