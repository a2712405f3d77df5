"""Claims: each claim about a model is judged; an error of a base is the verdict of its row."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.checking.relation import derived
from hf_lineage.checking.result import MERGE, NAMED, VERDICTS, Row, attempt
from hf_lineage.checking.stages import file_notes, judge_models
from hf_lineage.checkpoint.foreign import WEIGHT_FILES
from hf_lineage.checkpoint.formats.modules import SETTINGS
from hf_lineage.claims.card import stated
from hf_lineage.claims.names import RELATIONS
from hf_lineage.claims.sources import CARD, MERGE_CONFIG, Claim, Claims, read_claims
from hf_lineage.errors import (
    CheckpointError,
    LineageError,
    NetworkError,
    NothingToCompare,
    RepositoryError,
    UnlistedClass,
    printable,
)
from hf_lineage.evidence.evaluate import judge_merge
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef, hub_name, resolve
from hf_lineage.signature.values import Signature
from hf_lineage.source.contents import adapter_beside, adapter_folders, counterpart
from hf_lineage.source.locate import locate
from hf_lineage.source.model import FromWeights, OpenedModel, open_candidate, open_model
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.checking.report import Blended


WHOLE = frozenset({"F64", "F32", "F16", "BF16"})
"""The types of stored numbers that are not quantized."""


def relation_notes(
    claims: Sequence[Claim], repo: RepoRef, model: OpenedModel | Verdict | None = None
) -> tuple[str, ...]:
    """Return a sentence for each declared relation that what is stored contradicts, as far as it shows.

    `model` is the candidate, if it is one and could be opened.
    """
    declared = [claim for claim in claims if claim.relation and CARD in claim.sources]
    return tuple(
        f"{CARD} declares the relation {printable(str(relation), 40)}, but {contradiction}"
        for relation in dict.fromkeys(claim.relation for claim in declared)
        for contradiction in _contradictions(str(relation), declared, repo, model)
    )


def names_in(source: RepoRef) -> tuple[str, ...]:
    """Return the bases that any file of a repository names, whatever counts; none where they cannot be read."""
    try:
        claims = read_claims(replace(source, subfolder=""))
        return tuple(claim.base for claim in (*claims.claims, *claims.besides))
    except LineageError:
        return ()


def is_named(base: str, names: Iterable[str]) -> bool:
    """Return whether a base is one of those that a model names; a folder is named by its last part, and names so.

    Commits do not count, and neither does a base of which nothing else is known.
    """
    known = {_plain(name) for name in names}
    last = {name.rpartition("/")[2] for name in known if hub_name(base) is None or hub_name(name) is None}
    return _plain(base) in known or Path(_plain(base)).name in last


def _plain(name: str) -> str:
    return name.partition("@")[0].casefold()


def parts_notes(claims: Sequence[Claim], parts: Mapping[RepoRef, OpenedModel | Verdict]) -> tuple[str, ...]:
    """Return the sentences that hold for every part of a repository: one that is quantized makes the relation true."""
    by_part = [relation_notes(claims, part, model) for part, model in parts.items()]
    return tuple(note for note in by_part[0] if all(note in notes for notes in by_part))


def _contradictions(
    relation: str, declared: Sequence[Claim], repo: RepoRef, model: OpenedModel | Verdict | None
) -> Iterator[str]:
    if relation not in RELATIONS:
        yield f"the Hub knows only {', '.join(RELATIONS)}"
    elif relation == "adapter":
        if not adapter_beside(repo):
            missing = "adapter_model.safetensors" if repo.offers(ADAPTER_CONFIG) else ADAPTER_CONFIG
            yield f"there is no adapter: {missing} is missing"
    elif adapter_beside(repo) and not _has_weights(repo):
        yield "the repository holds only an adapter"
    elif relation == "merge" and len(declared) == 1 and MERGE_CONFIG not in declared[0].sources:
        yield "names one parent only"
    elif relation == "quantized" and isinstance(model, FromWeights) and _is_whole(model):
        yield "no tensor is quantized and config.json has no `quantization_config`"


def _has_weights(repo: RepoRef) -> bool:
    """Return whether there are weights besides those of an adapter."""
    weights = (name for name in repo.files() if name.endswith(WEIGHT_FILES))
    return any(not name.startswith(("adapter_model.", "adapters.")) for name in weights)


def _is_whole(model: FromWeights) -> bool:
    config, converted = model.opened.described.config, model.opened.described.foreign  # which the Hub calls quantized
    types = {tensor.dtype for tensor in model.opened.checkpoint.stored.values()}
    return not converted and types <= WHOLE and not any(map(config.get, SETTINGS))


FITTED = {
    False: "a copy of {} in a rotated stream with another embedding was not searched for because the model itself "
    "declares this base; --budget full searches for it",
    True: "a copy of {} in a rotated stream with another embedding was searched for, and not found",
}
"""Sentence about the test that takes most of the time of an UNRELATED, by whether it was made."""
Candidate = Callable[[], OpenedModel | Verdict]
"""The candidate, opened; or the verdict that says why there is nothing to compare."""
Base = Callable[[], RepoRef | Signature | Verdict]
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
    notes = file_notes(base, other)
    if options.run:
        outcome = import_module(f"{__package__}.executed").judge_executed(base, other, outcome, options)
    if options.strict:
        outcome = import_module(f"{__package__}.strict").judge_strict(base, other, outcome)
    searched = outcome.framed.searched if outcome.code is Code.UNRELATED and outcome.framed else None
    if searched is False or (searched and options.budget == "full"):
        notes = (*notes, FITTED[searched].format(printable(claim.base, 200)))
    opened_base, opened_candidate = both = [one if isinstance(one, OpenedModel) else None for one in (base, other)]
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
        part=part,
        derivation=derived(base, other, outcome, options.seed or 0),
        base_folder=base.opened.described.repo if isinstance(base, FromWeights) and base.local else None,
        licence=stated(opened_base.repo) if opened_base else "",
        opened=opened_base,
    )


def whole_base(claim: Claim, local_hub: Path | None) -> RepoRef | Signature:
    """Return the repository of a base: what another one declares is a name on the Hub, never a folder of this machine.

    Of the repository a folder may be meant.
    """
    named = claim.sources == NAMED
    try:
        return locate(claim.base, local_hub) if named else resolve(claim.base, local_hub, folders=False)
    except (RepositoryError, NetworkError) as error:
        raise type(error)(f"{error}{claim.remedy}") from None


Source = RepoRef | Signature
"""A repository, or the signature that stands for a model."""


@dataclass(frozen=True)
class Judged:
    """Judgement of a repository: a row for each claim and thing, and sentences about the repository."""

    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    blended: Blended | None = None
    """The model beside the bases that are claimed, if there are several whose weights are at hand."""


@dataclass(frozen=True)
class Asked:
    """Question about a model: whether it comes from the bases that are claimed."""

    declared: Claims
    options: Options
    named: bool
    """Whether the user named the bases, and not the model."""


@dataclass(frozen=True)
class Compared:
    """One base with which other models are compared, whatever they declare."""

    claim: Claim
    base: Source
    options: Options
    opened: Callable[[str], OpenedModel | Verdict]
    """Opens the model in a folder of the base, or the only one; each is opened once."""


def _judge(source: Source, asked: Asked, part: str = "") -> tuple[tuple[Row, ...], OpenedModel | Verdict]:
    """Return the rows of all claims, the parents of a merge judged together, and the candidate."""
    claims = asked.declared.claims
    options, candidate = asked.options, opened_once(source, asked.options)
    opened = candidate()
    return as_merge([judge_claim(candidate, claim, options, part) for claim in claims], options.min_share), opened


def check_signature(signature: Signature, asked: Asked) -> Judged:
    """Return whether a stored signature comes from the bases that are claimed."""
    return Judged(_judge(signature, asked)[0])


def check_model(repo: RepoRef, asked: Asked) -> Judged:
    """Return whether a model comes from the bases that are claimed."""
    (rows, opened), blended = _judge(repo, asked, repo.subfolder), None
    if len(rows) > 1:
        from hf_lineage.checking.merge import with_shares

        rows, blended = with_shares(repo, rows, opened, names_in(repo), asked.options)
    return Judged(rows, (*relation_notes(asked.declared.claims, repo, opened), *_adapters_in_folders(repo)), blended)


def _adapters_in_folders(source: Source) -> Iterator[str]:
    """Yield a sentence about adapters in folders beside a model."""
    folders = adapter_folders(source) if isinstance(source, RepoRef) and not source.subfolder else []
    if len(folders) == 1:
        yield f"{folders[0]}/ holds an adapter that was not judged: check it by itself"
    elif folders:
        yield f"{folders[0]}/ and {len(folders) - 1} more hold adapters that were not judged: check each by itself"


def compare_model(source: Source, compared: Compared) -> Judged:
    """Return whether a model, or the signature that stands for one, comes from one base."""
    part = source.subfolder if isinstance(source, RepoRef) else ""
    base = compared.opened(part)
    row = judge_pair(compared.claim, base, opened_once(source, compared.options), compared.options, part)
    return Judged((row,), tuple(_adapters_in_folders(source)))
