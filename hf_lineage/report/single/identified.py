"""Identification: what an index knows of a model, and what is in the index, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.evidence import Code
from hf_lineage.evidence.derivation import SIBLINGS
from hf_lineage.index.search import Identification, Relative
from hf_lineage.index.storage import Entry
from hf_lineage.report.findings import blend_values, describe_blend
from hf_lineage.report.formats import folded, table, wrapped
from hf_lineage.report.single.bases import named
from hf_lineage.report.words import indented, wording

SCHEMA_VERSION = 3
COLUMNS = ("Known model", "Distance", "Along", "Inherited", "p", "Verdict")


def text(results: Sequence[Identification]) -> str:
    """Return the relatives of a model as a table for each path, and the sentences."""
    return "".join(map(_text, results))


def _text(result: Identification) -> str:
    tested = (*result.related, *result.others)
    lines = [printable(result.model, 200)]
    if tested:
        lines.append(table(COLUMNS, (folded(_cells(result, one)) for one in tested), numeric=(1, 2, 3, 4)))
    return "\n".join([*lines, *map(wrapped, _sentences(result))]) + "\n"


def _cells(result: Identification, one: Relative) -> tuple[str, ...]:
    evidence = one.verdict.evidence[result.path]
    related = one in result.related
    along = f"{one.along:.2f}" if related and one is not result.ancestor else "-"
    distance = f"{one.distance:.3f}" if related else "-"
    return named(one.entry), distance, along, _inherited(result, one), f"{evidence.p_value:.3g}", one.verdict.label


def _inherited(result: Identification, one: Relative) -> str:
    return wording.inherited(one.verdict.evidence[result.path])


def _sentences(result: Identification) -> Iterator[str]:
    searched = f"{result.searched} of {result.of} models in the index are comparable (path {result.path})"
    if not result.related or result.ancestor is None:
        tested = f"{len(result.others)} were tested, and none is related" if result.others else "no key is similar"
        yield f"No relative was found: {searched}, {tested}. A model that is not in the index cannot be found."
        yield from _unsearched(result)
        return
    yield f"{searched}; p is corrected for the {len(result.related) + len(result.others)} that were tested"
    ancestor = result.ancestor
    nearest = min(result.related, key=lambda one: one.distance)
    yield f"Nearest known relative: {named(nearest.entry)} (distance {nearest.distance:.3f})"
    through = [one for one in result.related if one is not ancestor and one.along >= SIBLINGS]
    if ancestor.verdict.code is Code.PART:
        gave = [f"{_inherited(result, one)} in {named(one.entry)}" for one in (*through, ancestor)]
        yield f"What its units write has counterparts: {' and '.join(gave)}, as where layers were copied"
    elif through:
        shares = " and ".join(f"{one.along**2:.0%} is also in {named(one.entry)}" for one in through)
        between = "them" if through[1:] else "that model"
        yield (
            f"Of its difference from {named(ancestor.entry)} {shares}: it may come from there through {between}, or "
            "the reverse. Weights do not tell which came first"
        )
    else:
        yield f"No other known model lies between it and {named(ancestor.entry)}"
    if result.blended:
        yield from (f"By all weights {sentence}" for sentence in describe_blend(result.blended))
    yield from _unsearched(result)


def json(results: Sequence[Identification]) -> str:
    """Return the same as JSON."""
    return indented({"schema_version": SCHEMA_VERSION, "paths": [_values(result) for result in results]})


def _unsearched(result: Identification) -> Iterator[str]:
    """Yield how many models of the index the search cannot speak of."""
    if result.otherwise:
        yield (
            f"Only models with a stream of the same width, {result.width}, and a signature by the same recipe were "
            f"searched: {result.otherwise} others of the index were not. `hf-lineage compare` tests one of them, "
            "whatever the width"
        )


def _values(result: Identification) -> dict[str, Any]:
    return {
        "model": result.model,
        "commit": result.commit,
        "path": result.path,
        "searched": result.searched,
        "width": result.width,
        "not_searched": result.otherwise,
        "of": result.of,
        "ancestor": result.ancestor and result.ancestor.entry.model,
        "blend": result.blended and blend_values(result.blended),
        "relatives": [_relative(result, one) for one in (*result.related, *result.others)],
    }


def _relative(result: Identification, one: Relative) -> dict[str, Any]:
    evidence = one.verdict.evidence[result.path]
    related = one in result.related
    return {
        **{name: getattr(one.entry, name) for name in ("model", "commit", "width", "layers")},
        "verdict": one.verdict.word,
        "code": one.verdict.code,
        "p_value_adjusted": evidence.p_value,
        "score": evidence.comparison.score,
        "inherited": evidence.inherited and {"share": evidence.inherited.share},
        "distance": one.distance if related else None,
        "along": one.along if related else None,
        "key_similarity": one.similarity,
    }


def list_text(entries: Sequence[Entry]) -> str:
    """Return the models of an index as a table."""
    cells = [(named(one), one.commit[:12] or "-", one.path, str(one.width), str(one.layers)) for one in entries]
    counted = len({(entry.model, entry.commit) for entry in entries})
    shown = table(("Model", "Commit", "Path", "Width", "Layers"), cells, numeric=(3, 4), whole=(2,)) + "\n"
    return (shown if entries else "") + f"{counted} models\n"


FORMATS: Mapping[str, Callable[[Sequence[Identification]], str]] = {"text": text, "json": json}
LISTS: Mapping[str, Callable[[Sequence[Entry]], str]] = {
    "text": list_text,
    "json": lambda some: indented({"schema_version": SCHEMA_VERSION, "models": [asdict(entry) for entry in some]}),
}
