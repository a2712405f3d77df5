"""Print what an index knows of a model or of an adapter's base, as text and as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code
from hf_lineage.index.differences import SIBLINGS
from hf_lineage.index.identify import FOLDER, AdapterBases, Identification, TestedGroup
from hf_lineage.index.shard import Entry
from hf_lineage.report import wording
from hf_lineage.report.contributions import blend_values, describe_blend
from hf_lineage.report.json import indent_json
from hf_lineage.report.text import fold_row, table, wrap

Against = Callable[[str], str]  # the command that tests what was asked about against a base
SHOWN = 5  # models near one that was tested that are named
BASES_SCHEMA_VERSION, SCHEMA_VERSION = 1, 3


def entry_name(entry: Entry) -> str:
    """Return the name of a known model, safe to print."""
    return printable(entry.model, 200)


def bases_text(results: Sequence[AdapterBases], against: Against | None = None) -> str:
    """Return what is known of every adapter as a table, and the sentences that belong to it."""
    lines = []
    for result in results:
        part = f" ({printable(result.part, 100)})" if result.part else ""
        lines.append(f"{printable(result.model, 200)}{part}")
        cells = []
        for one in result.tested:
            p_text = "-" if (p_value := _p_value(result, one)) is None else f"{p_value:.3g}"
            cells.append(fold_row((entry_name(one.group.entry), str(len(one.group.near)), p_text, one.verdict.label)))
        if cells:
            lines.append(table(("Known model", "Near it", "p", "Verdict"), cells, numeric=(1, 2)))
        lines += map(wrap, _base_sentences(result, against))
    return "".join(f"{line}\n" for line in lines)


def _p_value(result: AdapterBases, one: TestedGroup) -> float | None:
    trace = one.verdict.trace
    return None if trace is None else min(1.0, trace.p_value * result.tests)


def _base_sentences(result: AdapterBases, against: Against | None) -> Iterator[str]:
    yield printable(result.description)
    if not result.width:
        yield "No known model was tested"
        return
    for one in result.tested:
        name, near = entry_name(one.group.entry), one.group.near
        if one.verdict.verified:
            more = f" and {len(near) - SHOWN} more" if len(near) > SHOWN else ""
            others = f"; near it by keys, and not tested: {', '.join(map(entry_name, near[:SHOWN]))}{more}" * bool(near)
            yield f"Made with {name} or with a near relative of it; the trace does not say which one{others}"
        elif one.verdict.reason:
            tests = f"; `{against(one.group.entry.model)}` tests it" if against and one.verdict.reason == FOLDER else ""
            yield f"{name}: {printable(one.verdict.reason)}{tests}"
    wide = " or ".join(map(str, result.width))
    tested = sum(one.is_tested for one in result.tested)
    left = result.untested + sum(one.untested_count for one in result.tested)
    yield f"{result.fitting} of {result.of} models in the index have a stream {wide} wide, as the adapter needs"
    yield (
        f"Tested against their weights, each for those near it: {tested}; not tested: {left}"
        f"{' (--top)' if result.untested else ''}" + (f"; p is corrected for {result.tests}" if tested else "")
    )
    if not any(one.verdict.is_related for one in result.tested):
        yield "No base was found: " + (
            "a model that was not tested may be it" if left else "a model that is not in the index cannot be found"
        )


def bases_json(results: Sequence[AdapterBases], _against: Against | None = None) -> str:
    """Return the same as JSON."""

    def name(entry: Entry) -> dict[str, str]:
        return {"model": entry.model, "commit": entry.commit}

    adapters = []
    for result in results:
        tested = []
        for one in result.tested:
            verdict, near = one.verdict, [*map(name, one.group.near)]
            judged = {"verdict": verdict.word, "code": verdict.code, "reason": verdict.reason}
            p_value = {"p_value_adjusted": _p_value(result, one)}
            tested.append({**name(one.group.entry), "near": near, **judged, **p_value})
        untested = result.untested + sum(one.untested_count for one in result.tested)
        about = {"model": result.model, "commit": result.commit, "part": result.part, "adapter": result.description}
        counts = {"width": result.width, "fitting": result.fitting, "untested": untested, "of": result.of}
        adapters.append({**about, **counts, "tested": tested})
    return indent_json({"schema_version": BASES_SCHEMA_VERSION, "adapters": adapters})


BASES_FORMATS: Mapping[str, Callable[..., str]] = {"text": bases_text, "json": bases_json}


def text(results: Sequence[Identification]) -> str:
    """Return the relatives of a model as a table for each path, and the sentences."""
    lines = []
    for result in results:
        lines.append(printable(result.model, 200))
        cells = []
        for one in (*result.related, *result.others):
            related, evidence = one in result.related, one.verdict.evidence[result.path]
            distance = f"{one.distance:.3f}" if related else "-"
            along = f"{one.along:.2f}" if related and one is not result.ancestor else "-"
            share = wording.print_share(evidence)
            row = entry_name(one.entry), distance, along, share, f"{evidence.p_value:.3g}", one.verdict.label
            cells.append(fold_row(row))
        if cells:
            columns = ("Known model", "Distance", "Along", "Inherited", "p", "Verdict")
            lines.append(table(columns, cells, numeric=(1, 2, 3, 4)))
        lines += map(wrap, _sentences(result))
    return "".join(f"{line}\n" for line in lines)


def _sentences(result: Identification) -> Iterator[str]:
    """Yield the size of the search, its result, and how many models of the index it cannot speak of."""
    searched, ancestor = f"{result.searched} of {result.of} models in the index are comparable", result.ancestor
    searched += f" (path {result.path})"
    if ancestor is None:
        tested = f"{len(result.others)} were tested, and none is related" if result.others else "no key is similar"
        yield f"No relative was found: {searched}, {tested}. A model that is not in the index cannot be found."
    else:
        yield f"{searched}; p is corrected for the {len(result.related) + len(result.others)} that were tested"
        nearest = min(result.related, key=lambda one: one.distance)
        yield f"Nearest known relative: {entry_name(nearest.entry)} (distance {nearest.distance:.3f})"
        through = [one for one in result.related if one is not ancestor and one.along >= SIBLINGS]
        if ancestor.verdict.code is Code.PART:
            shares = ((one, wording.print_share(one.verdict.evidence[result.path])) for one in (*through, ancestor))
            gave = " and ".join(f"{share} in {entry_name(one.entry)}" for one, share in shares)
            yield f"What its units write has counterparts: {gave}, as where layers were copied"
        elif through:
            also = " and ".join(f"{one.along**2:.0%} is also in {entry_name(one.entry)}" for one in through)
            yield (
                f"Of its difference from {entry_name(ancestor.entry)} {also}: it may come from there through "
                f"{'them' if through[1:] else 'that model'}, or the reverse. Weights do not tell which came first"
            )
        else:
            yield f"No other known model lies between it and {entry_name(ancestor.entry)}"
    if result.blended:
        yield from (f"By all weights {sentence}" for sentence in describe_blend(result.blended))
    if result.otherwise:
        yield (
            f"Only models with a stream of the same width, {result.width}, and a signature by the same recipe were "
            f"searched: {result.otherwise} others of the index were not. `hf-lineage compare` tests one of them, "
            "whatever the width"
        )


def json(results: Sequence[Identification]) -> str:
    """Return the same as JSON."""
    paths = []
    for result in results:
        relatives = []
        for one in (*result.related, *result.others):
            related, evidence = one in result.related, one.verdict.evidence[result.path]
            values = {name: getattr(one.entry, name) for name in ("model", "commit", "width", "layers")}
            values |= {"verdict": one.verdict.word, "code": one.verdict.code, "p_value_adjusted": evidence.p_value}
            values["score"] = evidence.comparison.score
            values["inherited"] = evidence.inherited and {"share": evidence.inherited.share}
            values |= {"distance": one.distance, "along": one.along} if related else {"distance": None, "along": None}
            relatives.append(values | {"key_similarity": one.similarity})
        values = {name: getattr(result, name) for name in ("model", "commit", "path", "searched", "width")}
        values |= {"not_searched": result.otherwise, "of": result.of}
        values["ancestor"] = result.ancestor and result.ancestor.entry.model
        values["blend"] = result.blended and blend_values(result.blended)
        paths.append(values | {"relatives": relatives})
    return indent_json({"schema_version": SCHEMA_VERSION, "paths": paths})


def list_text(entries: Sequence[Entry]) -> str:
    """Return the models of an index as a table."""
    cells = [(entry_name(one), one.commit[:12] or "-", one.path, str(one.width), str(one.layers)) for one in entries]
    counted = len({(entry.model, entry.commit) for entry in entries})
    text = table(("Model", "Commit", "Path", "Width", "Layers"), cells, numeric=(3, 4), whole=(2,)) + "\n"
    return (text if entries else "") + f"{counted} models\n"


def list_json(entries: Sequence[Entry]) -> str:
    """Return the same as JSON."""
    return indent_json({"schema_version": SCHEMA_VERSION, "models": [asdict(entry) for entry in entries]})


FORMATS: Mapping[str, Callable[[Sequence[Identification]], str]] = {"text": text, "json": json}
LISTS: Mapping[str, Callable[[Sequence[Entry]], str]] = {"text": list_text, "json": list_json}
