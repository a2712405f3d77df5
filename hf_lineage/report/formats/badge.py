"""A badge in SVG that shows the worst verdict of all claims; untrusted text is in its description alone, escaped."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.findings import state_all
from hf_lineage.report.page import fill
from hf_lineage.report.words import KINDS, public, wording

LABEL = "lineage"
GREEN, AMBER, RED, GREY, DARK = "#1a7f37", "#8a5a00", "#c4202d", "#5e6670", "#3b4048"
COLOURS = {"good": GREEN, "part": AMBER, "bad": RED, "open": GREY}
"""By the tone of a verdict."""
NARROW = frozenset("fijlrt")
WIDTHS = {"narrow": 3.4, "upper": 7.7, "lower": 6.8, "digit": 7.0, "other": 4.0}
"""Pixels that a letter of 11 takes in Verdana and its like, a little more than most; the text is fitted to the sum."""
HEIGHT, MARGIN = 20, 6


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a badge; `explain` adds nothing, there is no room."""
    del explain
    worst = wording.worst(report)
    summary = _summary(worst) if worst else "nothing declared"
    described = " ".join(f"{sentence}." for sentence in state_all(public(report)))
    left, right = (_width(text) + 2 * MARGIN for text in (LABEL, summary))
    return fill(
        "formats/badge.svg.j2",
        label=LABEL,
        summary=summary,
        described=described,
        sizes=(left, right, HEIGHT),
        widths=(_width(LABEL), _width(summary)),
        dark=DARK,
        colour=GREY if worst is None else COLOURS[KINDS[worst.verdict.kind].tone],
    )


def _summary(row: Row) -> str:
    """The verdict, with score, share and p-value where it rests on them."""
    ran, evidence = ", by running" if row.verdict.verified_by_running else "", wording.best(row)
    if row.verdict.strict is not None:
        ran = ", every number" if row.verdict.verified_by_numbers else ", not every number"
    if row.verdict.trace and row.verdict.is_related:
        return f"{row.verdict.words}, p {row.verdict.trace.p_value:.2g}"
    if evidence is None or not row.verdict.is_related:
        framed = row.verdict.framed if row.verdict.is_related else None
        return row.verdict.words + (f", {wording.share_of_units(framed)} inherited{ran}" if framed else "")
    share = "" if evidence.inherited is None else f", {wording.inherited(evidence)} inherited"
    return f"{row.verdict.words} {evidence.comparison.score:.2f}{share}{ran}, p {evidence.p_value:.2g}"


def _width(text: str) -> float:
    return round(sum(WIDTHS[_kind(letter)] for letter in text), 1)


def _kind(letter: str) -> str:
    kinds = {
        "narrow": letter in NARROW,
        "upper": letter.isupper(),
        "lower": letter.islower(),
        "digit": letter.isdigit(),
    }
    return next((kind for kind, fits in kinds.items() if fits), "other")
