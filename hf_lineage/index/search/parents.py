"""Parents: models of an index that, with the bases that a model declares, make it up as a blend."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hf_lineage.checking import Report
from hf_lineage.checking.relation import is_named, names_in, read_matrices, with_undeclared
from hf_lineage.checking.results import GAVE, Blended, Row
from hf_lineage.checking.source import FromWeights, OpenedModel, located, open_model
from hf_lineage.errors import LineageError, RepositoryError, printable
from hf_lineage.evidence.derivation import Made, blend_of
from hf_lineage.hub import RepoRef
from hf_lineage.index.search.catalogue_test import located as located_entry
from hf_lineage.index.storage import Entry
from hf_lineage.signature.extraction import Sample

MOST = 4
"""Models of an index whose weights are read for one model."""
TOGETHER = 3
"""How many of them may be parents of one model."""
SHOWING = (*GAVE, Made.FROM_MODEL, Made.PIECES, Made.NEAR)


def with_parents(report: Report, entries: Sequence[Entry]) -> Report:
    """Return a report with the parents among these models of an index, the nearest first.

    What cannot be read of one of them becomes a note.
    """
    rows = [row for row in report.rows if row.verdict.verified and not row.steps and not row.part]
    bases = [row.opened for row in rows]
    others, notes = _opened(report, list(dict.fromkeys(entries))[:MOST])
    report = replace(report, notes=(*report.notes, *notes))
    if not others or not bases or not all(isinstance(base, FromWeights) for base in bases):
        return report
    try:
        blended = _blended(report, rows, others)
    except LineageError as error:
        return replace(report, notes=(*report.notes, f"no blend with a model of the index was looked for: {error}"))
    if blended is None:
        return report
    shown = {name: repo for name in blended.undeclared if name in others and (repo := others[name].repo)}
    first = next(place for place, row in enumerate(report.rows) if row is rows[0])
    judged = list(report.rows)
    if shown and report.source:
        judged[first] = with_undeclared(report.source, rows[0], shown)
    return replace(report, blended=blended, rows=tuple(judged))


def _opened(report: Report, entries: Sequence[Entry]) -> tuple[dict[str, FromWeights], list[str]]:
    """Models of the index whose weights can be read, by name, and a sentence for every other."""
    others, notes = dict[str, FromWeights](), []
    for entry in entries:
        name = printable(entry.model, 200)
        try:
            other = open_model(located_entry(entry, report.options.local_hub), replace(report.options, recompute=True))
        except RepositoryError:
            continue  # a folder of somebody, or a model that is gone
        except LineageError as error:
            notes.append(f"whether the model is a blend with {name} was not looked for: {error}")
        else:
            if isinstance(other, FromWeights):
                others[entry.model] = other
    return others, notes


def _blended(report: Report, rows: Sequence[Row], others: dict[str, FromWeights]) -> Blended | None:
    """The model with its declared bases and those others that show; None if none does."""
    source = report.source or located(report.model, report.options)
    model = open_model(source, replace(report.options, recompute=True))
    parents = [one for one in (*(row.opened for row in rows), *others.values()) if isinstance(one, FromWeights)]
    if not isinstance(model, FromWeights):
        return None
    remote = any(one.opened.checkpoint.remote for one in (model, *parents))
    layers = _read(rows, model) if remote else range(model.layers)
    matrices = read_matrices(parents, model, layers, Sample(report.options.order_seed or 0), remote)
    names = (*(row.claim.base for row in rows), *others)
    own = names_in(source) if isinstance(source, RepoRef) else ()
    blends = {
        parts: blend_of([one for whole in matrices if (one := whole.only(parts))], len(parts), model.layers)
        for parts in _choices(len(rows), len(parents))
    }
    for showing in (GAVE, SHOWING):
        for parts, blend in blends.items():
            if all(how in showing for how in blend.made[len(rows) :]):
                chosen = tuple(names[number] for number in parts)
                # Whoever asks for a base names it where the model names none.
                asked = () if own else names[: len(rows)]
                named = tuple(name in asked or is_named(name, own) for name in chosen)
                return Blended(chosen, blend, named)
    return None


def _read(rows: Sequence[Row], model: OpenedModel) -> list[int]:
    """The layers of the model that were compared with every base."""
    read = [{*evidence.layers[1]} for row in rows for evidence in row.verdict.evidence.values()]
    return sorted(set.intersection({*range(model.layers)}, *read))


def _choices(bases: int, count: int) -> list[tuple[int, ...]]:
    """The numbers of all bases with those of some others, few before many."""
    return [
        (*range(bases), *some)
        for size in range(1, TOGETHER + 1)
        for some in itertools.combinations(range(bases, count), size)
    ]
