"""Identification: what an index knows of a model, and what is in the index, as text and as JSON.

Beside it what the weights of known models say of a model that no key finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.evidence.derivation import SIBLINGS
from hf_lineage.index.search import ByWeights, Identification, Judged, Relative
from hf_lineage.index.storage import Entry
from hf_lineage.report.findings import blend_values, describe_blend
from hf_lineage.report.formats import folded, table, wrapped
from hf_lineage.report.single import bases
from hf_lineage.report.single.bases import Against
from hf_lineage.report.words import indented, wording

COLUMNS_BY_WEIGHTS = ("Read as a whole", "Width", "Near it", "Inherited", "p", "Verdict")


def text_by_weights(result: ByWeights, against: Against | None = None) -> str:
    """Return the models that were read as a table, and the sentences that belong to it."""
    shown = table(
        COLUMNS_BY_WEIGHTS, (folded(_cells_by_weights(result, one)) for one in result.tested), numeric=(1, 2, 3, 4)
    )
    return (
        "\n".join([*([shown] if result.tested else []), *map(wrapped, _sentences_by_weights(result, against))]) + "\n"
    )


def _cells_by_weights(result: ByWeights, one: Judged) -> tuple[str, ...]:
    share, p_value = wording.inherited_share(one.row), corrected(result, one)
    return (
        bases.named(one.group.entry),
        str(one.group.entry.width),
        str(len(one.group.near)),
        "-" if share is None else f"{share:.0%}",
        "-" if p_value is None else f"{p_value:.3g}",
        one.verdict.words,
    )


def corrected(result: ByWeights, one: Judged) -> float | None:
    """Return the p-value of a test, corrected for all that were made; None where there was none."""
    p_value = wording.p_value(one.row)
    return None if p_value is None else min(1.0, p_value * result.tests)


def _sentences_by_weights(result: ByWeights, against: Against | None) -> Iterator[str]:
    for one in result.tested:
        if one.verdict.reason:
            yield f"{bases.named(one.group.entry)}: {bases.reason(one, against)}"
        if one.related and (near := bases.untested(one.group)):
            yield f"{near}; models that were not tested may be nearer"
    tested = sum(one.tested for one in result.tested)
    yield (
        f"{tested} of {result.fitting} models of the index, of any width, were tested "
        f"against their weights, each for those near it, and p is corrected for {result.tests}; {_left(result)} were "
        "neither tested nor near one that was"
    )
    if any(one.verdict.kind is Kind.CALIBRATED for one in result.tested):
        yield "RELATED, calibrated rests on a threshold, which is not corrected for the number of models tested"


def _left(result: ByWeights) -> int:
    return result.untested + sum(one.left for one in result.tested)


def values_by_weights(result: ByWeights) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "fitting": result.fitting,
        "untested": _left(result),
        "tested": [
            {
                **bases.values(one),
                "width": one.group.entry.width,
                "inherited": None if (share := wording.inherited_share(one.row)) is None else {"share": share},
                "p_value_adjusted": corrected(result, one),
            }
            for one in result.tested
        ],
    }


SCHEMA_VERSION = 2
COLUMNS = ("Known model", "Distance", "Along", "Inherited", "p", "Verdict")


def text(results: Sequence[Identification], read: ByWeights | None = None, against: Against | None = None) -> str:
    """Return the relatives of a model as a table for each path, then those that were `read`, and the sentences."""
    return "".join(_text(result) for result in results) + ("" if read is None else text_by_weights(read, against))


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
    shown = wording.inherited(evidence)
    return _named(one.entry), distance, along, shown, f"{evidence.p_value:.3g}", one.verdict.words


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
    yield f"Nearest known relative: {_named(nearest.entry)} (distance {nearest.distance:.3f})"
    through = [one for one in result.related if one is not ancestor and one.along >= SIBLINGS]
    if through:
        named = " and ".join(f"{one.along**2:.0%} is also in {_named(one.entry)}" for one in through)
        between = "them" if through[1:] else "that model"
        yield (
            f"Of its difference from {_named(ancestor.entry)} {named}: it may come from there through {between}, or "
            "the reverse. Weights do not tell which came first"
        )
    else:
        yield f"No other known model lies between it and {_named(ancestor.entry)}"
    if result.blended:
        yield from (f"By all weights {sentence}" for sentence in describe_blend(result.blended))
    yield from _unsearched(result)


def _named(entry: Entry) -> str:
    return printable(entry.model, 200)


def json(results: Sequence[Identification], read: ByWeights | None = None, _against: Against | None = None) -> str:
    """Return the same as JSON."""
    tested = None if read is None else values_by_weights(read)
    paths = [_values(result) for result in results]
    return indented({"schema_version": SCHEMA_VERSION, "paths": paths, "by_weights": tested})


def _unsearched(result: Identification) -> Iterator[str]:
    """How many models of the index the search cannot speak of."""
    if result.otherwise:
        how = "`hf-lineage compare` tests one" if result.related else "--by-weights tests some"
        yield (
            f"Only models with a stream of the same width, {result.width}, and a signature by the same recipe were "
            f"searched: {result.otherwise} others of the index were not. {how} of them, whatever the width"
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
        "verdict": one.verdict.name,
        "kind": one.verdict.kind.identifier if related else None,
        "p_value_adjusted": evidence.p_value,
        "score": evidence.comparison.score,
        "inherited": evidence.inherited and {"share": evidence.inherited.share},
        "distance": one.distance if related else None,
        "along": one.along if related else None,
        "key_similarity": one.similarity,
    }


def list_text(entries: Sequence[Entry]) -> str:
    """Return the models of an index as a table."""
    cells = [
        (_named(entry), entry.commit[:12] or "-", entry.path, str(entry.width), str(entry.layers)) for entry in entries
    ]
    counted = len({(entry.model, entry.commit) for entry in entries})
    shown = table(("Model", "Commit", "Path", "Width", "Layers"), cells, numeric=(3, 4), whole=(2,)) + "\n"
    return (shown if entries else "") + f"{counted} models\n"


def list_json(entries: Sequence[Entry]) -> str:
    """Return the models of an index as JSON."""
    return indented({"schema_version": SCHEMA_VERSION, "models": [asdict(entry) for entry in entries]})


FORMATS: Mapping[str, Callable[[Sequence[Identification], ByWeights | None, Against | None], str]] = {
    "text": text,
    "json": json,
}
LISTS: Mapping[str, Callable[[Sequence[Entry]], str]] = {"text": list_text, "json": list_json}
