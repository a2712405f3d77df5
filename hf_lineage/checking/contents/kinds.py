"""What a repository holds, found once: a model, or models in its folders, or adapters, or other things beside these.

To read another kind of thing add its file and an entry to the table KINDS; no other module changes. A repository may
hold several of them. How the files of a model are read, foreign forms among them, is another table: `FORMS` of
`checkpoint/foreign`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.checking.contents.adapters import ADAPTERS
from hf_lineage.checking.contents.kind import MODEL, SIGNATURE, ContentKind, Judged, Source
from hf_lineage.checking.contents.submodels import NAMED_PART, PARTS, SUBMODELS
from hf_lineage.checking.source import model_config, with_folders
from hf_lineage.claims import Claims, read_claims
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub import RepoRef
from hf_lineage.signature import Signature

KINDS: tuple[ContentKind[Any], ...] = (SIGNATURE, NAMED_PART, ADAPTERS, SUBMODELS, PARTS)
"""All kinds but a model, which a repository is if it holds nothing in place of one; in the order of their rows."""


@dataclass(frozen=True)
class Contents:
    """What one repository holds, or the signature that stands for a model."""

    source: Source
    held: tuple[tuple[ContentKind[Any], Any], ...]
    """Each kind, and what was found of it."""

    @property
    def repo(self) -> RepoRef | None:
        """The repository; None for a stored signature."""
        return None if isinstance(self.source, Signature) else self.source

    def judge(self, by: Callable[[ContentKind[Any], Any], Judged]) -> Judged:
        """Return what comes of everything that it holds by one question; LineageError if something cannot be read."""
        every = [by(kind, held) for kind, held in self.held]
        blended = next((each.blended for each in every if each.blended), None)
        return Judged(sum((each.rows for each in every), ()), sum((each.notes for each in every), ()), blended)


def contents_of(source: Source) -> Contents:
    """Return what is in a repository, by its files alone; LineageError if a file that says so is damaged."""
    things = tuple((kind, held) for kind in KINDS if (held := kind.find(source)) is not None)
    is_model = not any(kind.in_place for kind, _ in things)
    return Contents(source, ((MODEL, source), *things) if is_model else things)


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
        folders = [read_claims(folder) for kind, held in contents.held for folder in kind.folders(held)]
        bases = {claim.base.casefold(): claim for each in folders for claim in each.claims}
        conflicts = sum((each.conflicts for each in folders), claims.conflicts)
        claims = replace(claims, claims=tuple(bases.values()), conflicts=conflicts)
    if not claims.claims and any(kind is MODEL for kind, _ in contents.held):
        with contextlib.suppress(NothingToCompare):
            model_config(source)
    return with_folders(claims, source)
