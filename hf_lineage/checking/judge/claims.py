"""Claims: each claim about a model is judged; an error of a base is the verdict of its row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hf_lineage.checking.judge.ancestors import Reached, reach, through
from hf_lineage.checking.judge.load_variants import judged_every_way
from hf_lineage.checking.options import Options
from hf_lineage.checking.relation import derived
from hf_lineage.checking.results import MERGE, NAMED, VERDICTS, Row, attempt
from hf_lineage.checking.source import (
    CONFIG,
    FromWeights,
    OpenedModel,
    Parts,
    counterpart,
    locate,
    open_model,
    part_of,
    unchanged,
)
from hf_lineage.claims import Claim
from hf_lineage.errors import NetworkError, NothingToCompare, RepositoryError, printable
from hf_lineage.evidence import Kind, Verdict
from hf_lineage.evidence.judging import judge_merge
from hf_lineage.hub import RepoRef, resolve
from hf_lineage.signature import Signature

NOT_FITTED = (
    "a copy of {} in a rotated stream with another embedding was not searched for, since the model itself declares "
    "this base; --budget full searches for it"
)
"""What is left out of a verdict UNRELATED to save most of its time; it says how to have it."""
Candidate = Callable[[], OpenedModel | Verdict]
"""The candidate, opened; or the verdict that says why there is nothing to compare."""


def opened_once(source: RepoRef | Signature, options: Options) -> Candidate:
    """Return what opens a candidate when it is first called, or gives the verdict that says why it cannot."""
    return functools.cache(lambda: attempt(lambda: open_model(source, options), NothingToCompare))


def judge_claim(candidate: Candidate, claim: Claim, options: Options, part: str = "") -> Row:
    """Return the row of one claim: an error of the base becomes its verdict, an error of the candidate is raised.

    `part` is the folder in which the candidate is.
    """
    if claim.problem:
        return Row(claim, Verdict(Kind.UNVERIFIABLE, f"{claim.problem}{claim.remedy}"), part=part)
    usual = candidate()
    if isinstance(usual, Verdict):
        return Row(claim, usual, part=part)
    source = attempt(lambda: base_of(claim, options.local_hub, part), *VERDICTS)
    if isinstance(source, Verdict):
        return Row(claim, source, part=part)
    reached = reach(source, usual, options, part)
    base = reached.base
    if isinstance(base, OpenedModel) and base.identity == usual.identity is not None and claim.sources != NAMED:
        itself = Verdict(Kind.UNVERIFIABLE, "the model declares itself as its base")
        return Row(claim, itself, source.commit, part=part)
    return judge_pair(claim, reached, candidate, options, part, source.commit)


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
    reached: Reached,
    candidate: Candidate,
    options: Options,
    part: str = "",
    commit: str | None = None,
) -> Row:
    """Return the row of a claim on two models; `commit` is that of a base that was not compared itself."""
    base, other = reached.base, candidate()
    outcome, notes = judged_every_way(base, other, options, claim.sources != NAMED)
    if outcome.kind is Kind.UNRELATED and outcome.framed and not outcome.framed.searched:
        notes = (*notes, NOT_FITTED.format(printable(claim.base, 200)))
    opened_base, opened_candidate = both = [
        model if isinstance(model, OpenedModel) else None for model in (base, other)
    ]
    brought = tuple(f"{model.name}: {model.own_code}" for model in both if model and model.own_code)
    return Row(
        claim,
        through(_saying(outcome, brought), reached.steps),
        own_code=brought,
        base_commit=opened_base.commit if opened_base and not reached.steps else commit,
        layers=opened_candidate.layers if opened_candidate else None,
        traffic={model.name: done for model in both if model and (done := model.downloads())},
        base_origin=opened_base.origin if opened_base else None,
        model_origin=opened_candidate.origin if opened_candidate else None,
        notes=(*notes, *reached.notes),
        part=part,
        steps=reached.steps,
        derivation=derived(base, other, outcome, options.order_seed or 0),
        base_folder=_folder(opened_base),
        licence=opened_base.licence if opened_base else None,
        opened=opened_base,
        quoted=_quoted(base, other) if options.quoted else {},
    )


def _quoted(base: OpenedModel | Verdict, candidate: OpenedModel | Verdict) -> Mapping[str, float]:
    from hf_lineage.checking.relation import quoted

    return quoted(base, candidate)


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
        rows = [judge_claim(candidate, claim, options, part) for part, candidate in candidates.items()]
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
