"""Any finding on the page: its tables, its picture, and what it says."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.report.findings import Bar, Bars, Finding
from hf_lineage.report.page.markup import Markup, joined, tag
from hf_lineage.report.page.page import table, whole

WIDTH, HEIGHT = 200, 16
FOLDED = 12
"""Rows from which a table is folded."""
HINTS = (
    *("; --budget full reads them all", "; --set recompute=yes reads them again", "; --set recompute=yes reads them"),
    "; where that is you, add --policy own",
)
"""What reports tell those who run the command, and a page does not."""


def without_hint(sentence: str) -> str:
    """Return a sentence without what it tells those who run the command.

    >>> without_hint("the signature comes from the cache; --set recompute=yes reads them again")
    'the signature comes from the cache'
    """
    return next((sentence.removesuffix(hint) for hint in HINTS if sentence.endswith(hint)), sentence)


def is_shown_apart(finding: Finding) -> bool:
    """Return whether a finding has more than sentences, and a part of the page for it."""
    return bool(finding.tables or finding.picture or (finding.details and not finding.in_verdict))


def show(finding: Finding, named: str = "", explain: bool = False) -> Iterator[Markup]:
    """Yield what is below the title of a finding; `named` stands before the names of its tables, `explain` unfolds."""
    for one in finding.tables:
        content = table(one.columns, one.rows, f"{named}{one.title}", "narrow")
        yield content if len(one.rows) < FOLDED else _folded(content, one.title, explain)
    if finding.picture:
        yield draw(finding.picture)
    sentences = (tag("p", whole(without_hint(one)), class_="exact") for one in (*finding.sentences, *finding.details))
    yield tag("div", *sentences, class_="numbers")


def draw(picture: Bars) -> Markup:
    """Return bars as a list, and what they mean below them."""
    bars = (joined(tag("dt", bar.label), tag("dd", _bar(bar))) for bar in picture.bars)
    return tag(
        "figure",
        tag("dl", *bars, class_="shares"),
        tag("figcaption", picture.caption) if picture.caption else "",
    )


def _folded(content: Markup, title: str, explain: bool) -> Markup:
    return tag("details", tag("summary", title), content, open="" if explain else None)


def _bar(bar: Bar) -> Markup:
    """A bar from nothing to the share, on a scale that reaches from nothing to the whole, and its interval."""
    end, low, high = (WIDTH * min(max(value, 0.0), 1.0) for value in (bar.value, bar.low, bar.high))
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=WIDTH, height=HEIGHT, class_="track"),
        tag("rect", x=0, y=0, width=end, height=HEIGHT, class_="share") if bar.clear else "",
        tag("path", d=f"M{low:g} {HEIGHT / 2:g}H{max(high, low + 0.5):g}", class_="line"),
        **{"class": "small", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"},
        aria_label=f"{bar.value:.2f} ({bar.low:.2f} to {bar.high:.2f})",
    )
