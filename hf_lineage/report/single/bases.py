"""Knowledge of an index about the base of an adapter, as text and as JSON.

Two reports have the words and values in common that tell of a test against the weights of a known model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.index.search import FOLDER, AdapterBases, Group, Judged
from hf_lineage.index.storage import Entry
from hf_lineage.report.formats import folded, table, wrapped
from hf_lineage.report.words import indented

Against = Callable[[str], str]
"""The command that tests what was asked about against a base."""
SHOWN = 5
"""Models near one that was tested that are named."""


def named(entry: Entry) -> str:
    """Return the name of a known model, safe to print."""
    return printable(entry.model, 200)


def untested(group: Group) -> str:
    """Return the sentence on the models that one of a group was tested for; empty where it stands for itself alone."""
    if not group.near:
        return ""
    more = f" and {len(group.near) - SHOWN} more" if len(group.near) > SHOWN else ""
    verbs = "is near it by its keys, and was" if len(group.near) == 1 else "are near it by their keys, and were"
    return f"{', '.join(map(named, group.near[:SHOWN]))}{more} {verbs} not tested"


def reason(judged: Judged, against: Against | None) -> str:
    """Return why there is nothing more to say of one, with the command that tests a folder; empty if there is."""
    model = judged.group.entry.model
    tests = f"; `{against(model)}` tests it" if against and judged.verdict.reason == FOLDER else ""
    return f"{printable(judged.verdict.reason)}{tests}"


def values(judged: Judged) -> dict[str, Any]:
    """Return the model that was tested, those near it and the verdict, as plain values."""
    return {
        "model": judged.group.entry.model,
        "commit": judged.group.entry.commit,
        "near": [{"model": other.model, "commit": other.commit} for other in judged.group.near],
        "verdict": judged.verdict.word,
        "code": judged.verdict.code,
        "reason": judged.verdict.reason,
    }


SCHEMA_VERSION = 1
COLUMNS = ("Known model", "Near it", "p", "Verdict")


def text(results: Sequence[AdapterBases], against: Against | None = None) -> str:
    """Return what is known of every adapter as a table, and the sentences that belong to it."""
    return "".join(_text(result, against) for result in results)


def _text(result: AdapterBases, against: Against | None) -> str:
    part = f" ({printable(result.part, 100)})" if result.part else ""
    lines = [f"{printable(result.model, 200)}{part}"]
    if result.tested:
        lines.append(table(COLUMNS, (folded(_cells(result, one)) for one in result.tested), numeric=(1, 2)))
    return "\n".join([*lines, *map(wrapped, _sentences(result, against))]) + "\n"


def _cells(result: AdapterBases, one: Judged) -> tuple[str, ...]:
    p_value = _p_value(result, one)
    shown = "-" if p_value is None else f"{p_value:.3g}"
    return named(one.group.entry), str(len(one.group.near)), shown, one.verdict.label


def _p_value(result: AdapterBases, one: Judged) -> float | None:
    trace = one.verdict.trace
    return None if trace is None else min(1.0, trace.p_value * result.tests)


def _sentences(result: AdapterBases, against: Against | None) -> Iterator[str]:
    yield printable(result.described)
    if not result.width:
        yield "No known model was tested"
        return
    for one in result.tested:
        name = named(one.group.entry)
        if one.verdict.verified:
            near = untested(one.group)
            others = f"; {near}" if near else ""
            yield f"Made with {name} or with a near relative of it; the trace does not say which one{others}"
        elif one.verdict.reason:
            yield f"{name}: {reason(one, against)}"
    wide = " or ".join(map(str, result.width))
    tested = sum(one.tested for one in result.tested)
    left = result.untested + sum(one.left for one in result.tested)
    yield f"{result.fitting} of {result.of} models in the index have a stream {wide} wide, as the adapter needs"
    yield (
        f"Tested against their weights, each for those near it: {tested}; not tested: {left}"
        f"{' (--top)' if result.untested else ''}" + (f"; p is corrected for {result.tests}" if tested else "")
    )
    if not any(one.related for one in result.tested):
        yield "No base was found: " + (
            "a model that was not tested may be it" if left else "a model that is not in the index cannot be found"
        )


def json(results: Sequence[AdapterBases], _against: Against | None = None) -> str:
    """Return the same as JSON."""
    return indented({"schema_version": SCHEMA_VERSION, "adapters": [_values(result) for result in results]})


def _values(result: AdapterBases) -> dict[str, Any]:
    return {
        "model": result.model,
        "commit": result.commit,
        "part": result.part,
        "adapter": result.described,
        "width": list(result.width),
        "fitting": result.fitting,
        "untested": result.untested + sum(one.left for one in result.tested),
        "of": result.of,
        "tested": [{**values(one), "p_value_adjusted": _p_value(result, one)} for one in result.tested],
    }


FORMATS: Mapping[str, Callable[[Sequence[AdapterBases], Against | None], str]] = {"text": text, "json": json}
