"""Models in the folders of a repository that is none itself, and parts of one model: each is judged by itself.

What is not read of the folders is a row as well; a part that was not looked at is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hf_lineage.architecture.registry import listing
from hf_lineage.checking.claims import (
    Asked,
    Candidate,
    Compared,
    Judged,
    Source,
    base_once,
    check_model,
    check_signature,
    compare_model,
    judge_claim,
    judge_pair,
    opened_once,
    parts_notes,
    relation_notes,
)
from hf_lineage.checking.result import VERDICTS, Row, attempt
from hf_lineage.claims.sources import Claim
from hf_lineage.errors import printable
from hf_lineage.evidence.evaluate import as_related
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import holds_others, named_class
from hf_lineage.source.contents import CONFIG, Parts, part_of, unchanged, with_parts
from hf_lineage.source.options import Options

if TYPE_CHECKING:
    from hf_lineage.checking.adapter_repository import Adapters


@dataclass(frozen=True)
class Contents:
    """Contents of one repository, or the signature that stands for a model."""

    source: Source
    adapters: Adapters | None
    """LoRA adapters in place of a model; None where there are none."""
    folders: Parts
    """Models in its folders in place of one at its root."""
    parts: Sequence[RepoRef]
    """The parts of a model beside its language model."""

    @property
    def repo(self) -> RepoRef | None:
        """The repository; None for a stored signature."""
        return None if isinstance(self.source, Signature) else self.source

    @property
    def is_model(self) -> bool:
        """Whether the repository is a model: it is one if it holds nothing in place of one."""
        return bool(self.repo and not (self.repo.part or self.adapters or self.folders.models))

    def check(self, asked: Asked) -> Judged:
        """Return whether everything in it comes from the bases that are claimed."""
        return _joined(self._checked(asked))

    def _checked(self, asked: Asked) -> Iterator[Judged]:
        if isinstance(self.source, Signature):
            yield check_signature(self.source, asked)
        elif self.is_model:
            yield with_copies(check_model(self.source, asked), self.source, asked)
        elif self.source.part:
            yield check_named(self.source, asked)
        if self.adapters:
            from hf_lineage.checking.adapter_repository import judge_all

            first = self.adapters.places[0]
            notes = () if first.file else relation_notes(asked.declared.claims, first.repo)
            rows = judge_all(self.adapters, asked.declared, asked.options, asked.named)
            yield Judged(tuple(rows), (*notes, *self.adapters.notes))
        if self.folders.models:
            yield check_folders(self.folders, asked)
        if self.parts:
            yield check_parts(self.parts, asked)

    def compare(self, compared: Compared) -> Judged:
        """Return whether everything in it comes from one base."""
        return _joined(self._compared(compared))

    def _compared(self, compared: Compared) -> Iterator[Judged]:
        if isinstance(self.source, Signature) or self.is_model:
            yield compare_model(self.source, compared)
        elif self.source.part:
            yield compare_named(self.source, compared)
        if self.adapters:
            from hf_lineage.checking.adapter_repository import judge_each_on

            rows = judge_each_on(self.adapters, compared.claim, compared.base, compared.options)
            yield Judged(tuple(rows), self.adapters.notes)
        if self.folders.models:
            yield compare_folders(self.folders, compared)
        if self.parts:
            yield compare_parts(self.parts, compared)


def _joined(judged: Iterator[Judged]) -> Judged:
    every = list(judged)
    blended = next((each.blended for each in every if each.blended), None)
    return Judged(sum((each.rows for each in every), ()), sum((each.notes for each in every), ()), blended)


NOT_JUDGED = "its use by the rest of the model was not judged"
"""Reservation in every row about a part."""
COPY = (
    "the same bytes: all files with weights are those of the base, and so is config.json; nothing was compared, for {}"
)


def check_folders(parts: Parts, asked: Asked) -> Judged:
    """Return whether the models in folders come from the bases that are claimed."""
    claims, options = asked.declared.claims, asked.options
    candidates = {part.file or part.subfolder: opened_once(part, options) for part in parts.models}
    notes = parts_notes(claims, {part: candidates[part.file or part.subfolder]() for part in parts.models})
    return Judged(tuple(row for claim in claims for row in _judge(parts, candidates, claim, options)), notes)


def _judge(parts: Parts, candidates: Mapping[str, Candidate], claim: Claim, options: Options) -> Iterator[Row]:
    """Yield the rows of a claim on the folders of a repository, given the candidate in each.

    A folder that cannot be judged and that the base does not have is a note if another folder can be judged. All parts
    that no factorization reads make one row, unless their files are those of the base.
    """
    located = base_once(claim, options.local_hub)
    rows = [judge_claim(candidate, claim, options, part, located) for part, candidate in candidates.items()]
    base = None if claim.problem else located()
    every = parts.models[0].each  # the user asks for each of these files
    judged = [row for row in rows if every or not row.verdict.code.is_unjudged or _has(base, row.part)]
    judged = judged if any(not row.verdict.code.is_unjudged for row in judged) else rows
    left = (f"{row.part} was not judged: {row.verdict.reason}" for row in rows if not any(row is one for one in judged))
    notes = (*parts.notes, *left)
    yield from (replace(row, notes=(*row.notes, *notes)) for row in judged)
    if names := [f"{part} ({name})" for part, name in parts.others.items() if not _is_of(base, parts, part)]:
        reason = f"parts that were not read may come from elsewhere: {printable(', '.join(names), 500)}"
        yield Row(claim, Verdict(Code.UNSUPPORTED, reason))


def _has(base: object, part: str) -> bool:
    """Return whether a base has a folder of its own for a part."""
    return isinstance(base, RepoRef) and base.offers(f"{part}/{CONFIG}")


def _is_of(base: object, parts: Parts, part: str) -> bool:
    """Return whether a part that is not read equals that of the base, byte for byte; no if that is not known."""
    if not isinstance(base, RepoRef) or not _has(base, part):
        return False
    return _is_copy(part_of(replace(parts.models[0], subfolder=""), part), part_of(base, part))


def with_copies(judged: Judged, repo: RepoRef, asked: Asked) -> Judged:
    """Return what was judged of a model, RELATED where nobody listed its class, and its files are those of a base."""
    rows = list(judged.rows)
    name = named_class(repo.config()) if repo.has(CONFIG) else None
    for at, row in enumerate(rows):
        unread = row.verdict.code.is_unjudged and name and not any(listing(name)) and not row.claim.problem
        base = base_once(row.claim, asked.options.local_hub)() if unread else None
        if isinstance(base, RepoRef) and base.identity != repo.identity and _is_copy(repo, base):
            same = COPY.format(row.verdict.reason)
            rows[at] = replace(row, verdict=as_related(Code.LISTED, same, asked.options.criteria(analyses=1)))
    return replace(judged, rows=tuple(rows))


def _is_copy(part: RepoRef, base: RepoRef) -> bool:
    """Return whether a part equals that of the base, byte for byte; no if that is not known."""
    return attempt(lambda: unchanged(part, base), *VERDICTS) is True


def compare_folders(parts: Parts, compared: Compared) -> Judged:
    """Return whether the models in folders come from one base."""

    def judge(part: RepoRef) -> Row:
        base, candidate = compared.opened(part.subfolder), opened_once(part, compared.options)
        return judge_pair(compared.claim, base, candidate, compared.options, part.file or part.subfolder)

    return Judged(tuple(map(judge, parts.models)))


def find_parts(source: Source) -> Sequence[RepoRef]:
    """Return the parts of a model beside its language model, by its files alone."""
    if isinstance(source, Signature) or not source.has(CONFIG) or not holds_others(source.config()):
        return ()
    return [part for part in with_parts(source)[1:] if isinstance(part, RepoRef)]


def _fitting(part: RepoRef, base: Source | Verdict) -> Source | Verdict:
    """Return the part of a base that a part is compared with, or the verdict that says why there is none."""
    from hf_lineage.source.contents import fitting_part

    return base if isinstance(base, Verdict) else attempt(lambda: fitting_part(base, part), *VERDICTS)


def _row(part: RepoRef, claim: Claim, base: Source | Verdict, options: Options) -> Row:
    row = judge_claim(opened_once(part, options), claim, options, part.part, lambda: base)
    return replace(row, notes=(*row.notes, f"{part.part}: {NOT_JUDGED}"))


def check_parts(parts: Sequence[RepoRef], asked: Asked) -> Judged:
    """Return the rows of the parts of a model, each on the fitting part of each base."""
    hub, claims = asked.options.local_hub, [claim for claim in asked.declared.claims if not claim.problem]
    pairs = [(part, claim, _fitting(part, base_once(claim, hub)())) for part in parts for claim in claims]
    return _judged(pairs, asked.options)


def compare_parts(parts: Sequence[RepoRef], compared: Compared) -> Judged:
    """Return the same on one base."""
    return _judged([(part, compared.claim, _fitting(part, compared.base)) for part in parts], compared.options)


def _judged(pairs: Sequence[tuple[RepoRef, Claim, Source | Verdict]], options: Options) -> Judged:
    """Return a row for each part and claim, and a sentence for each part of which a base has no such part."""
    rows = tuple(_row(part, claim, base, options) for part, claim, base in pairs if not isinstance(base, Verdict))
    notes = (f"{part.part} was not looked at: {base.reason}" for part, _, base in pairs if isinstance(base, Verdict))
    return Judged(rows, tuple(dict.fromkeys(notes)))


def check_named(part: RepoRef, asked: Asked) -> Judged:
    """Return whether a part that is named comes from the fitting parts of the bases that are claimed."""
    options = asked.options
    bases = [(claim, _fitting(part, base_once(claim, options.local_hub)())) for claim in asked.declared.claims]
    return Judged(tuple(_row(part, claim, base, options) for claim, base in bases))


def compare_named(part: RepoRef, compared: Compared) -> Judged:
    """Return whether a part that is named comes from the fitting part of one base."""
    return Judged((_row(part, compared.claim, _fitting(part, compared.base), compared.options),))
