"""Several claims at a glance: one line for each parent, with a bar for what is inherited from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.report.page.bars import score_bar, share_bar
from hf_lineage.report.page.claim import state_beside
from hf_lineage.report.page.markup import Markup, identifier, tag
from hf_lineage.report.page.page import sign, whole, word
from hf_lineage.report.page.tiles import figures
from hf_lineage.report.words import KINDS, wording

EXPLAINED = (
    "The bar is the share of the model that is inherited from each base. Shares of several bases overlap where these "
    "are related to each other. The mark is the score of the pair; by chance is what independent models of this shape "
    "score under permutation."
)


def overview(report: Report, *above: Markup) -> Markup:
    """Return a section that lists all claims, each with a link that unfolds it; `above` stands on top of the list."""
    rows = report.rows
    counts = Counter(row.verdict.words for row in rows)
    summary = ", ".join(f"{count} {words}" for words, count in counts.items())
    lines = (tag("li", *_line(report, row, number)) for number, row in enumerate(rows))
    measured = any(wording.inherited_share(row) is not None for row in rows)
    return tag(
        "section",
        tag("h2", f"{len(rows)} claims: {summary}"),
        *above,
        tag("ol", *lines, class_="parents"),
        tag("p", EXPLAINED, class_="muted") if measured else "",
        class_="overview",
    )


def _line(report: Report, row: Row, number: int) -> Iterator[Markup]:
    name = tag("a", identifier(row.claim.base), href=f"#claim-{number}")
    part = f" ({printable(row.part, 100)})" if row.part else ""
    yield tag("p", sign(KINDS[row.verdict.kind].tone), name, part, class_="parent")
    yield tag("p", word(row.verdict), class_="outcome")
    yield from _measured(row)
    about = next(map(whole, state_beside(report, row)), "") or _first(wording.reason(row))
    if about:
        yield tag("p", about, class_="muted")


def _measured(row: Row) -> Iterator[Markup]:
    evidence, (score, share, p_value) = wording.best(row), figures(row)
    framed = row.verdict.framed if row.verdict.by_units else None
    inherited = framed.inherited if framed else evidence.inherited if evidence else None
    if inherited is not None:
        yield tag(
            "div", share_bar(inherited.share, inherited.interval), tag("p", f"{share} inherited"), class_="bar-of"
        )
    if evidence is not None:
        low, high = evidence.permutation.range
        sentence = f"score {score}, p = {p_value}; by chance {low:.3f} to {high:.3f}"
        yield tag("div", score_bar(evidence.permutation), tag("p", whole(sentence)), class_="bar-of")
    elif p_value != "–":
        yield tag("div", tag("p", f"p = {p_value}"), class_="bar-of")


def _first(reason: str) -> str:
    """The beginning of a reason, which the claim has in full."""
    short = reason if len(reason) <= 160 else f"{reason[:160].rsplit(' ', 1)[0]} …"
    return whole(short) if short else ""
