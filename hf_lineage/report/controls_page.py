"""A comparison beside controls as one self-contained page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hf_lineage import __version__
from hf_lineage.checking.controls import Controlled
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Kind
from hf_lineage.report import wording
from hf_lineage.report.controls_axis import Point, axis, enlarged, points, whole
from hf_lineage.report.controls_rows import COLUMNS, MEANING, Line, Role, cells, command, lines, outcome, remarks
from hf_lineage.report.html import STYLE, policy
from hf_lineage.report.kinds import KINDS
from hf_lineage.report.markup import Markup, identifier, tag

AXIS = (
    "Every row is one model, compared with {base}. The mark is the score as it is, on the test coordinates, where the "
    "test is made; it can differ a little from the score in the table. The grey bar is its own null: where 98 of 100 "
    "permutations of the same two models lie; the line through it reaches as far as any of them."
)
ENLARGED = "An arrow stands for a score that lies beyond the end of this axis."

TONES = {kind.words: KINDS[kind].tone for kind in Kind}
"""By the words of a verdict, the tone in which they are shown."""


def render(controlled: Controlled, explain: bool = False) -> str:
    """Return the page; `explain` adds nothing, the page of the pair alone has every layer."""
    del explain
    style = STYLE.read_text(encoding="utf-8")
    title = f"{printable(controlled.pair.model, 200)} and {printable(controlled.base, 200)}, beside controls"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"hf-lineage {__version__}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    header = tag(
        "header",
        tag("p", "Lineage report beside controls", class_="eyebrow"),
        tag("h1", identifier(controlled.pair.model), " and ", identifier(controlled.base)),
    )
    footer = tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights alone. {wording.MEANING}"))
    body = tag("body", header, tag("main", *_sections(controlled)), footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(controlled: Controlled) -> Iterator[Markup]:
    drawn = lines(controlled)
    yield from (_banner(line) for line in drawn if line.role is Role.PAIR)
    sentences = [tag("li", f"{sentence}.") for sentence in remarks(controlled)]
    yield tag("section", tag("h2", "What the controls show"), tag("ul", *sentences), tag("p", MEANING, class_="muted"),
              class_="limits")  # fmt: skip
    yield tag("section", tag("h2", "All on one axis"), *_axes(drawn, controlled.base), _table(drawn))
    controls = [tag("li", f"{outcome(line)}.") for line in drawn if line.role is not Role.PAIR]
    yield tag("section", tag("h2", "What would have been said of the controls"), tag("ul", *controls), class_="limits")
    code = tag("code", f"$ {command(controlled)}")
    again = tag("pre", code, tabindex=0, role="region", aria_label="command")
    yield tag("section", tag("h2", "Check it yourself"), again)
    limits = tag("ul", *(tag("li", limit) for limit in wording.LIMITS))
    settings = tag("p", wording.settings(controlled.pair), class_="exact")
    yield tag("section", tag("h2", "Limits"), limits, settings, class_="limits")


def _banner(line: Line) -> Markup:
    shown, reason = KINDS[line.row.verdict.kind], wording.reason(line.row)
    banner = tag(
        "div",
        tag("p", tag("span", line.row.verdict.words, class_=f"word {shown.tone}"), class_="verdict"),
        tag("h2", f"{shown.headline} ", identifier(line.row.claim.base)),
        tag("p", shown.says),
        tag("p", tag("strong", "Reason: "), reason, class_="reason") if reason else "",
        tag("p", shown.says_not, class_="muted"),
        tag("p", f"{outcome(line)}.", class_="exact"),
        class_=f"banner {shown.tone}",
    )
    return tag("section", banner, class_="claim")


def _axes(drawn: Sequence[Line], base: str) -> Iterator[Markup]:
    """A figure for each path, with the models that are not on its axis named below it."""
    paths = dict.fromkeys(path for line in drawn for path in line.row.verdict.evidence)
    for path in paths:
        shown = points(drawn, path)
        close = enlarged(shown)
        beside = _absent(drawn, shown)
        yield tag("h3", "Along the path ", tag("code", path))
        caption = AXIS.format(base=printable(base, 200)) + beside
        figures = [_figure("From nothing in common to the same weights", axis(shown, whole(shown), path), caption)]
        if close is not None:
            figures.append(_figure("Enlarged around the nulls", axis(shown, close, f"{path}-close"), ENLARGED))
        yield tag("div", *figures, class_="figures")


def _figure(title: str, picture: Markup, caption: str) -> Markup:
    return tag("figure", tag("h4", title), picture, tag("figcaption", caption))


def _absent(drawn: Sequence[Line], shown: Sequence[Point]) -> str:
    absent = [line for line in drawn if all(point.line is not line for point in shown)]
    named = "; ".join(f"{line.name} ({line.row.verdict.words})" for line in absent)
    return f" Not on this axis: {named}." if named else ""


def _table(drawn: Sequence[Line]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in COLUMNS)))
    body = (
        tag("tr", tag("th", tag("bdi", first, class_="id"), scope="row"), *(tag("td", cell) for cell in rest[:-1]),
            tag("td", tag("span", rest[-1], class_=f"word {TONES.get(rest[-1])}")))
        for line in drawn
        for first, *rest in cells(line)
    )  # fmt: skip
    table = tag("table", tag("caption", "the pair and its controls", class_="hidden"), head, tag("tbody", *body))
    return tag("div", table, class_="scroll", role="region", aria_label="the pair and its controls", tabindex=0)
