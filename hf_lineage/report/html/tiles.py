"""The few numbers that decided, large, at the head of a claim on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import Evidence
from hf_lineage.evidence.adapters import Trace
from hf_lineage.report.page import score_bar, share_bar
from hf_lineage.report.words import numbers, wording


class Tile(NamedTuple):
    """One number."""

    name: str
    figure: str
    picture: Markup | str
    """Empty where there is none."""
    meaning: str


def tiles(report: Report, row: Row) -> Iterator[Tile]:
    """Yield the numbers that decided, each with what it means."""
    path = row.verdict.decisive
    if row.verdict.trace:
        yield from _of_trace(row, row.verdict.trace)
    elif path is not None and not row.verdict.by_units:
        yield from _of_path(report, row, path)


def _of_path(report: Report, row: Row, path: str) -> Iterator[Tile]:
    evidence = row.verdict.evidence[path]
    score, share, p_value = figures(row)
    null, inherited = evidence.permutation, evidence.inherited
    low, high = null.range
    around = (
        f"1 means the same weights. On the {null.coordinates} test coordinates alone this pair scores "
        f"{null.observed:.3f}, and independent models of this shape score {low:.3f} to {high:.3f}."
    )
    yield Tile("Score", score, score_bar(null), around)
    bar = share_bar(inherited.share, inherited.interval) if inherited else ""
    yield Tile("Inherited", share, bar, _share_means(report, evidence))
    by_chance = f"How often independent models would score as high by chance.{numbers.p_explained(evidence)}"
    yield Tile("p-value", p_value, "", by_chance)
    yield Tile("Layers", _layers(row, evidence), "", f"Compared along the path {path}, each with its best partner.")


def _of_trace(row: Row, trace: Trace) -> Iterator[Tile]:
    by_chance = "How often the adapter of an independent model would fit the base as well by chance."
    yield Tile("p-value", f"{trace.p_value:.3g}", "", by_chance)
    read, most = len({*trace.layers}), row.layers
    several = f"{read} of {most}" if most is not None and read < most else str(read)
    yield Tile("Layers", several, "", f"Tested of what the adapter changes: {', '.join(trace.by_role)}.")


def _share_means(report: Report, evidence: Evidence) -> str:
    if evidence.inherited is None:
        return "Not measured: a stored signature holds no hidden units."
    low, high = (f"{end:.0%}" for end in evidence.inherited.interval)
    between = "" if low == high else f"Between {low} and {high} "
    return (
        f"{between or f'{low} '}of what the model's hidden units write has a counterpart in the base; more than "
        f"{report.options.min_share:.0%} is required."
    )


def _layers(row: Row, evidence: Evidence) -> str:
    """How many layers were compared, and of how many where more could have been read."""
    read = len(evidence.comparison.by_layer)
    early = evidence.analyses > 1 and row.layers is not None and evidence.read < row.layers
    return f"{read} of {row.layers}" if early else str(read)


def figures(row: Row) -> tuple[str, str, str]:
    """Return score, share and p-value of the path that decided."""
    evidence = wording.best(row)
    if evidence is None:
        p_value, share = wording.p_value(row), wording.inherited_share(row)
        return "–", "–" if share is None else f"{share:.0%}", "–" if p_value is None else f"{p_value:.3g}"
    return wording.score(evidence), wording.inherited(evidence).replace("-", "–"), f"{evidence.p_value:.3g}"
