"""Parents: models of an index that, with the bases that a model declares, make it up as a blend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hf_lineage.checking import Options, Report
from hf_lineage.checking.relation import find_blend, is_named, names_in, weights_of
from hf_lineage.checking.results import Blended
from hf_lineage.checking.source import FromWeights, OpenedModel, located, open_model
from hf_lineage.errors import LineageError, NetworkError, RepositoryError, printable
from hf_lineage.hub import RepoRef
from hf_lineage.index.search.catalogue_test import located as located_entry
from hf_lineage.index.search.identify import Identification
from hf_lineage.index.storage import Entry

MOST = 4
"""Models of an index whose weights are read for one model."""
PART = 0.3
"""The least cosine of the differences of a model and of a relative from the base whose weights are read: of several
parents of a blend each shares so much."""


def with_parents(report: Report, entries: Sequence[Entry]) -> Report:
    """Return a report with the parents among these models of an index, the nearest first.

    What cannot be read of one of them becomes a note.
    """
    rows = [row for row in report.rows if row.verdict.verified and not row.part]
    bases = [one for row in rows if (one := weights_of(row.opened, report.options))]
    others, notes = _opened(list(dict.fromkeys(entries))[:MOST], report.options)
    report = replace(report, notes=(*report.notes, *notes))
    if not others or not bases or len(bases) < len(rows):
        return report
    try:
        source = report.source or located(report.model, report.options)
        model = open_model(source, replace(report.options, recompute=True))
        own = model if isinstance(model, FromWeights) else None
        choice = find_blend(own, bases, list(others.values()), rows, report.options) if own else None
    except LineageError as error:
        return replace(report, notes=(*report.notes, f"no blend with a model of the index was looked for: {error}"))
    if choice is None:
        return report
    declared = tuple(row.claim.base for row in rows)
    named = names_in(source) if isinstance(source, RepoRef) else ()
    names = tuple((*declared, *others)[number] for number in choice[0])
    # Whoever asks for a base names it where the model names none.
    asked = () if named else declared
    known = tuple(name in asked or is_named(name, named) for name in names)
    blended = Blended(names, choice[1], known, by_model=bool(named))
    return replace(report, blended=blended)


def weighed(result: Identification, model: OpenedModel, options: Options) -> Identification:
    """Return what an index knows of a model, with the relatives that make it up, where all weights can be read."""
    near = [one.entry for one in result.related if one is not result.ancestor and one.along >= PART][:MOST]
    if result.ancestor is None or not near:
        return result
    try:
        own = weights_of(model, options)
        opened, _ = _opened([result.ancestor.entry, *near], options) if own else ({}, [])
        base = opened.pop(result.ancestor.entry.model, None)
        choice = find_blend(own, [base], list(opened.values()), (), options) if own and base and opened else None
    except LineageError:
        return result  # what its signature tells is told
    if choice is None:
        return result
    names = tuple((result.ancestor.entry.model, *opened)[number] for number in choice[0])
    return replace(result, blended=Blended(names, choice[1], (True,) * len(names)))


def _opened(entries: Sequence[Entry], options: Options) -> tuple[dict[str, FromWeights], list[str]]:
    """Return models of the index whose weights can be read, by name, and a sentence for every other."""
    others, notes = dict[str, FromWeights](), []
    for entry in entries:
        name = printable(entry.model, 200)
        try:
            other = open_model(located_entry(entry, options.local_hub), replace(options, recompute=True))
        except RepositoryError:
            continue  # a folder of somebody, or a model that is gone
        except LineageError as error:
            notes.append(f"whether the model is a blend with {name} was not looked for: {error}")
            if isinstance(error, NetworkError):  # the client has waited long for one of them
                break
        else:
            if isinstance(other, FromWeights):
                others[entry.model] = other
    return others, notes
