"""Contents of a repository, found once: a model, or models in its folders, or adapters, and parts beside these.

The readers of a model's files, foreign forms among them, are another table: `FORMS` of `checkpoint/foreign`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hf_lineage.checking.contents import submodels
from hf_lineage.checking.contents.model import (
    Asked,
    Compared,
    Judged,
    Source,
    check_model,
    check_signature,
    compare_model,
)
from hf_lineage.checking.relation import relation_notes
from hf_lineage.checking.source import CONFIG, Parts, model_config, parts_of, with_folders
from hf_lineage.claims import Claims, read_claims
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

if TYPE_CHECKING:
    from hf_lineage.checking.adapters import Adapters


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
            yield submodels.with_copies(check_model(self.source, asked), self.source, asked)
        elif self.source.part:
            yield submodels.check_named(self.source, asked)
        if self.adapters:
            from hf_lineage.checking.adapters import judge_all

            first = self.adapters.places[0]
            notes = () if first.file else relation_notes(asked.declared.claims, first.repo)
            rows = judge_all(self.adapters, asked.declared, asked.options, asked.named)
            yield Judged(tuple(rows), (*notes, *self.adapters.notes))
        if self.folders.models:
            yield submodels.check_folders(self.folders, asked)
        if self.parts:
            yield submodels.check_parts(self.parts, asked)

    def compare(self, compared: Compared) -> Judged:
        """Return whether everything in it comes from one base."""
        return _joined(self._compared(compared))

    def _compared(self, compared: Compared) -> Iterator[Judged]:
        if isinstance(self.source, Signature) or self.is_model:
            yield compare_model(self.source, compared)
        elif self.source.part:
            yield submodels.compare_named(self.source, compared)
        if self.adapters:
            from hf_lineage.checking.adapters import judge_each_on

            rows = judge_each_on(self.adapters, compared.claim, compared.base, compared.options)
            yield Judged(tuple(rows), self.adapters.notes)
        if self.folders.models:
            yield submodels.compare_folders(self.folders, compared)
        if self.parts:
            yield submodels.compare_parts(self.parts, compared)


def _joined(judged: Iterator[Judged]) -> Judged:
    every = list(judged)
    blended = next((each.blended for each in every if each.blended), None)
    return Judged(sum((each.rows for each in every), ()), sum((each.notes for each in every), ()), blended)


def contents_of(source: Source) -> Contents:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    return Contents(source, _adapters(source), parts_of(source), submodels.find_parts(source))


def _adapters(source: Source) -> Adapters | None:
    if isinstance(source, Signature) or source.offers(CONFIG):
        return None
    from hf_lineage.checking.adapters import find_adapters

    return find_adapters(source)


def declared_in(contents: Contents) -> Claims:
    """Return what a model declares: nothing for a stored signature, because claims stand in the files of a repository.

    What the root declares counts or, where it declares nothing, the folder that is meant, or those of what it holds.
    Where nothing is declared nothing is downloaded, but a folder that holds no model is still an error.
    """
    source = contents.source
    if isinstance(source, Signature):
        return Claims((), ())
    claims = read_claims(replace(source, subfolder=""))
    if source.subfolder and not claims.claims:
        claims = read_claims(source)
    elif not claims.claims:
        places = contents.adapters.places if contents.adapters else ()
        folders = [read_claims(place.repo) for place in places if place.repo.subfolder]
        bases = {claim.base.casefold(): claim for each in folders for claim in each.claims}
        conflicts = sum((each.conflicts for each in folders), claims.conflicts)
        claims = replace(claims, claims=tuple(bases.values()), conflicts=conflicts)
    if not claims.claims and contents.is_model:
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return with_folders(claims, source)
