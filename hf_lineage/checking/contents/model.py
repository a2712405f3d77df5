"""Requests about a repository, and a model or a stored signature, judged on the bases that are claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_lineage.checking.judge import as_merge, judge_claim, judge_pair, opened_once
from hf_lineage.checking.options import Options
from hf_lineage.checking.relation import relation_notes
from hf_lineage.checking.results import Row
from hf_lineage.checking.source import OpenedModel, adapter_folders
from hf_lineage.claims import Claim, Claims
from hf_lineage.evidence import Verdict
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

if TYPE_CHECKING:
    from hf_lineage.checking.results import Blended

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
        from hf_lineage.checking.relation import names_in, with_shares

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
