"""LoRA adapters in a repository that holds no model: each is judged by itself on the bases that it declares."""

from __future__ import annotations

from hf_lineage.checking.adapters import Adapters, find_adapters, judge_all, judge_each_on
from hf_lineage.checking.contents.kind import Asked, Compared, Judged, Kind
from hf_lineage.checking.relation import relation_notes


def _check(adapters: Adapters, asked: Asked) -> Judged:
    first = adapters.places[0]
    notes = () if first.file else relation_notes(asked.declared.claims, first.repo)
    rows = judge_all(adapters, asked.declared, asked.options, asked.named)
    return Judged(tuple(rows), (*notes, *adapters.notes))


def _compare(adapters: Adapters, compared: Compared) -> Judged:
    rows = judge_each_on(adapters, compared.claim, compared.base, compared.options)
    return Judged(tuple(rows), adapters.notes)


ADAPTERS: Kind[Adapters] = Kind(
    name="LoRA adapters",
    find=find_adapters,
    check=_check,
    compare=_compare,
    folders=lambda adapters: tuple(place.repo for place in adapters.places if place.repo.subfolder),
    in_place=True,
)
