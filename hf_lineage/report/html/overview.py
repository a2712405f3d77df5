"""Several claims at a glance: one line for each parent, with a bar for what is inherited from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.html.claim import state_beside
from hf_lineage.report.html.tiles import figures
from hf_lineage.report.page import score_bar, share_bar, whole
from hf_lineage.report.words import wording


@dataclass(frozen=True)
class Line:
    """One claim of several."""

    row: Row
    bars: tuple[tuple[Markup | str, str], ...]
    """Pictures, each with the figures that it shows; where there are figures alone the picture is empty."""
    about: str
    """Which layers come from the base, or the beginning of a reason, which the claim has in full."""


def overview_line(report: Report, row: Row) -> Line:
    """Return one claim at a glance."""
    return Line(row, tuple(_bars(row)), next(map(whole, state_beside(report, row)), "") or _first(wording.reason(row)))


def _bars(row: Row) -> Iterator[tuple[Markup | str, str]]:
    evidence, (score, share, p_value) = wording.best(row), figures(row)
    framed = row.verdict.framed if row.verdict.by_units else None
    inherited = framed.inherited if framed else evidence.inherited if evidence else None
    if inherited is not None:
        yield share_bar(inherited.share, inherited.interval), f"{share} inherited"
    if evidence is not None:
        low, high = evidence.permutation.range
        words = f"Score {score}, p = {p_value}; by chance {low:.3f} to {high:.3f}."
        yield score_bar(evidence.permutation), words
    elif p_value != "–":
        yield "", f"p = {p_value}"


def _first(reason: str) -> str:
    short = reason if len(reason) <= 160 else f"{reason[:160].rsplit(' ', 1)[0]} …"
    return whole(short) if short else ""
