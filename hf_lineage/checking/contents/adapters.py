"""LoRA adapters in a repository that holds no model: each is judged by itself on the bases that it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_lineage.checking.contents.kind import Asked, Compared, ContentKind, Judged, Source
from hf_lineage.checking.relation import relation_notes
from hf_lineage.checking.source import CONFIG
from hf_lineage.signature import Signature

if TYPE_CHECKING:
    from hf_lineage.checking.adapters import Adapters


def _find(source: Source) -> Adapters | None:
    if isinstance(source, Signature) or source.offers(CONFIG):
        return None
    from hf_lineage.checking.adapters import find_adapters

    return find_adapters(source)


def _check(adapters: Adapters, asked: Asked) -> Judged:
    from hf_lineage.checking.adapters import judge_all

    first = adapters.places[0]
    notes = () if first.file else relation_notes(asked.declared.claims, first.repo)
    rows = judge_all(adapters, asked.declared, asked.options, asked.named)
    return Judged(tuple(rows), (*notes, *adapters.notes))


def _compare(adapters: Adapters, compared: Compared) -> Judged:
    from hf_lineage.checking.adapters import judge_each_on

    rows = judge_each_on(adapters, compared.claim, compared.base, compared.options)
    return Judged(tuple(rows), adapters.notes)


ADAPTERS: ContentKind[Adapters] = ContentKind(
    name="LoRA adapters",
    find=_find,
    check=_check,
    compare=_compare,
    folders=lambda adapters: tuple(place.repo for place in adapters.places if place.repo.subfolder),
    in_place=True,
)
