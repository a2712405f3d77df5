"""A comparison beside controls as one self-contained page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hf_lineage import __version__
from hf_lineage.checking import Controlled, Report
from hf_lineage.checking.results import moment
from hf_lineage.errors import printable
from hf_lineage.evidence import Kind
from hf_lineage.report.controls.axis import Point, axis, enlarged, points
from hf_lineage.report.controls.axis import whole as from_nothing
from hf_lineage.report.controls.rows import COLUMNS, MEANING, Line, Role, cells, command, lines, outcome, remarks
from hf_lineage.report.page import (
    CARDS,
    Markup,
    code,
    commit_of_base,
    commit_of_model,
    document,
    identifier,
    joined,
    sign,
    table,
    tag,
    time_of,
    whole,
    word,
)
from hf_lineage.report.words import KINDS, wording
from hf_lineage.report.words import publishable as public

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
    private = {name: short for report in _reports(controlled) for name, short in public.names(report).items()}
    again, controlled = command(controlled), _public(controlled, private)
    title = f"{printable(controlled.pair.model, 200)} and {printable(controlled.base, 200)}, beside controls"
    header = tag(
        "header",
        tag("p", "Lineage report beside controls", class_="eyebrow"),
        tag("h1", identifier(controlled.pair.model), " and ", identifier(controlled.base)),
        tag("p", "Checked on ", time_of(moment(controlled.pair.checked_at)), class_="commit"),
    )
    footer = tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights alone. {wording.MEANING}"))
    return document(title, header, tag("main", *_sections(controlled, again)), footer)


def _reports(controlled: Controlled) -> list[Report]:
    return [controlled.pair, *(one.report for one in controlled.controls)]


def _public(controlled: Controlled, private: Mapping[str, str]) -> Controlled:
    """The same without the paths of this machine, as on the page of one report."""
    controls = (
        replace(one, report=public.public(one.report), declares=private.get(one.declares, one.declares))
        for one in controlled.controls
    )
    base = private.get(controlled.base, controlled.base)
    return Controlled(base, public.public(controlled.pair), tuple(controls))


def _sections(controlled: Controlled, again: str) -> Iterator[Markup]:
    drawn = lines(controlled)
    yield from (_banner(line) for line in drawn if line.role is Role.PAIR)
    sentences = [tag("li", f"{sentence}.") for sentence in remarks(controlled)]
    yield tag("section", tag("h2", "What the controls show"), tag("ul", *sentences), tag("p", MEANING, class_="muted"),
              class_="limits")  # fmt: skip
    yield tag("section", tag("h2", "All on one axis"), *_axes(drawn, controlled.base), _table(drawn))
    controls = [tag("li", f"{outcome(line)}.") for line in drawn if line.role is not Role.PAIR]
    yield tag("section", tag("h2", "What would have been said of the controls"), tag("ul", *controls), class_="limits")
    limits = tag("ul", *(tag("li", limit) for limit in wording.LIMITS))
    yield tag("section", tag("h2", "Limits"), limits, class_="limits")
    yield _made(controlled, again)


def _made(controlled: Controlled, again: str) -> Markup:
    """When, by what and of what the page was made."""
    facts = (
        ("Checked on", time_of(moment(controlled.pair.checked_at))),
        ("Checked by", f"hf-lineage {__version__}"),
        ("Model", joined(identifier(controlled.pair.model), commit_of_model(controlled.pair, ", commit ", ", "))),
        *(("Base", joined(identifier(row.claim.base), commit_of_base(row, ", commit ", ", ")))
          for row in controlled.pair.rows[:1]),
        *(("Control", joined(identifier(one.report.model), commit_of_model(one.report, ", commit ", ", ")))
          for one in controlled.controls),
    )  # fmt: skip
    return tag(
        "section",
        tag("h2", "How this page was made"),
        tag("dl", *(joined(tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts"),
        code(f"$ {again} --format html", "command that makes this page"),
        tag("p", wording.settings(controlled.pair), class_="exact"),
        class_="made",
    )


def _banner(line: Line) -> Markup:
    shown, reason = KINDS[line.row.verdict.kind], wording.reason(line.row)
    banner = tag(
        "div",
        tag("p", sign(shown.tone), word(line.row.verdict), class_="verdict"),
        tag("h2", f"{shown.headline} ", identifier(line.row.claim.base)),
        tag("p", shown.says),
        tag("p", tag("strong", "Reason: "), whole(reason), class_="reason") if reason else "",
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
        figures = [
            _figure("From nothing in common to the same weights", axis(shown, from_nothing(shown), path), caption)
        ]
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
    rows = (
        (tag("bdi", first, class_="id") if first else "", *rest[:-1],
         tag("span", rest[-1], class_=f"word {TONES.get(rest[-1])}"))
        for line in drawn
        for first, *rest in cells(line)
    )  # fmt: skip
    return table(COLUMNS, rows, "the pair and its controls", CARDS)
