"""Small pictures beside a number: a share as a bar, and a score beside what independent models score."""

from __future__ import annotations

from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.report.page.markup import Markup, tag

WIDTH, HEIGHT = 200, 14
THIN = 3.0
"""Pixels that the range of independent models takes at least, to be seen."""
TIP = 5
"""Half the width of the mark of a score."""


def share_bar(share: float, interval: tuple[float, float]) -> Markup:
    """Return a bar from nothing to a share of the whole, with the interval that holds it."""
    low, high = interval
    between = "" if f"{low:.0%}" == f"{high:.0%}" else f", between {low:.0%} and {high:.0%}"
    return _picture(
        f"{share:.0%} inherited{between}",
        tag("rect", x=0, y=0, width=WIDTH, height=HEIGHT, class_="track"),
        tag("rect", x=0, y=0, width=WIDTH * share, height=HEIGHT, class_="share"),
        tag("path", d=f"M{WIDTH * low:g} {HEIGHT / 2:g}H{WIDTH * high:g}", class_="gap") if between else "",
    )


def score_bar(null: PermutationNull) -> Markup:
    """Return a scale from 0 to 1 with the range of independent models on it, and the score of this pair."""
    low, high = null.range
    start, end, score = (WIDTH * min(max(value, 0.0), 1.0) for value in (low, high, null.observed))
    at = min(max(score, TIP), WIDTH - TIP)
    return _picture(
        f"On a scale from 0 to 1: independent models score {low:.3f} to {high:.3f}, this pair {null.observed:.3f}",
        tag("rect", x=0, y=4, width=WIDTH, height=6, class_="track"),
        tag("rect", x=min(start, WIDTH - THIN), y=1, width=max(end - start, THIN), height=12, class_="chance"),
        tag("path", d=f"M{at:g} 14V4M{at - TIP:g} 0h{2 * TIP}l-{TIP} 6z", class_="score"),
    )


def _picture(title: str, *parts: object) -> Markup:
    shape = {"class": "small", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"}
    return tag("svg", *parts, **shape, aria_label=title)
