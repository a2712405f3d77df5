"""Gathering: the models of a tree, from their names or from an index, with what they declare."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hf_lineage.checking import Options
from hf_lineage.checking.relation import derived, read_beside, weights_of
from hf_lineage.checking.source import OpenedModel, located, only, open_model
from hf_lineage.claims import read_claims
from hf_lineage.errors import LineageError
from hf_lineage.evidence import Verdict
from hf_lineage.evidence.derivation import Blend, Derivation, blend_of
from hf_lineage.index.building.building import Progress
from hf_lineage.index.storage import Catalogue
from hf_lineage.index.tree import Member
from hf_lineage.signature import Signature


@dataclass(frozen=True)
class Gathered:
    """Models of a tree, and why others are none of it."""

    members: tuple[Member, ...]
    opened: tuple[OpenedModel | None, ...]
    """Each of these models, opened; None where its weights cannot be read."""
    problems: tuple[str, ...] = ()

    def seen(self, base: int, candidate: int, verdict: Verdict) -> Derivation | None:
        """Return how one model was made from another that it is related to; None where that cannot be measured."""
        one, other = self.opened[base], self.opened[candidate]
        return derived(one, other, verdict, 0) if one is not None and other is not None else None

    def blend(self, model: int, parents: Sequence[int]) -> Blend | None:
        """Return a model as a combination of several others; None where the weights of one cannot be read."""
        options = Options(seed=0)
        with contextlib.suppress(LineageError):
            opened = [one for at in (model, *parents) if (one := weights_of(self.opened[at], options))]
            if len(opened) > len(parents):
                return blend_of(read_beside(opened[0], opened[1:], (), options), len(parents), opened[0].layers)
        return None


def gather(models: Sequence[str], options: Options, progress: Progress = iter) -> Gathered:
    """Return the signatures and the claims of some models; what cannot be read is told, and the others are kept."""
    members: dict[str, tuple[Member, OpenedModel | None]] = {}
    problems = []
    for model in progress(models):
        try:
            member, opened = _member(model, options)
        except LineageError as error:
            problems.append(f"{model}: {error}")
            continue
        members.setdefault(member.folder or member.name, (member, opened))
    readable = members.values()
    return Gathered(tuple(one for one, _ in readable), tuple(opened for _, opened in readable), tuple(problems))


def _member(model: str, options: Options) -> tuple[Member, OpenedModel | None]:
    source = located(model, options)
    if isinstance(source, Signature):
        return Member(source.model, source), None
    opened = open_model(only(source), options)
    claims = read_claims(replace(source, subfolder="")).claims
    folder = "" if source.remote else str(source.folder.resolve())
    return Member(source.name, opened.signature(), claims, folder), opened


def indexed(catalogue: Catalogue, path: str) -> Gathered:
    """Return the models of an index along one path; it holds signatures, and nothing that they declare.

    Those whose signatures cannot be read are passed over.
    """
    entries = {entry.model: entry for entry in sorted(catalogue.entries()) if entry.path == path}
    read = ((name, catalogue.tested(entry)) for name, entry in entries.items())
    members = tuple(Member(name, signature) for name, signature in read if signature is not None)
    return Gathered(members, (None,) * len(members))


def together(named: Gathered, others: Gathered) -> Gathered:
    """Return the models of both; of one that is in both, the first."""
    known = {member.name for member in named.members}
    new = [at for at, member in enumerate(others.members) if member.name not in known]
    return Gathered(
        (*named.members, *(others.members[at] for at in new)),
        (*named.opened, *(others.opened[at] for at in new)),
        (*named.problems, *others.problems),
    )
