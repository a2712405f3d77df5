"""A comparison beside controls as one self-contained page without scripts.

Its picture in SVG has the scores of a pair and of its controls on one axis, each with its own null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from hf_lineage.checking import Controlled
from hf_lineage.checking.results import moment
from hf_lineage.errors import printable
from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.report.controls.rows import COLUMNS, MEANING, Line, Role, cells, command, lines, outcome, remarks
from hf_lineage.report.page import Commit, below, commit_of_base, commit_of_model, fill, identifier, svg, word
from hf_lineage.report.words import KINDS, advice, wording
from hf_lineage.report.words import publishable as public

WIDTH, LEFT, RIGHT, TOP, HIGH = 360, 14, 346, 30, 58
"""The picture as wide as a phone shows it, where the axis lies in it, where the first model begins, and its height."""
LETTERS = 38
"""Letters of a name for which there is room."""
ENLARGED = 3.0
"""How many times the range of the nulls the scores have to span before the nulls are shown enlarged as well."""
SHAPES = {
    Role.PAIR: ("diamond", 8, "dot model"),
    Role.INDEPENDENT: ("circle", 5, "dot model ring"),
    Role.RELATIVE: ("square", 5, "dot model ring"),
}
"""By role the shape of its mark, half its width, and its class."""
Span = tuple[float, float]


@dataclass(frozen=True)
class Point:
    """One model on the axis."""

    line: Line
    null: PermutationNull
    p_value: float


def points(drawn: Sequence[Line], along: str) -> list[Point]:
    """Return the models that were measured along a path."""
    measured = ((line, line.row.verdict.evidence.get(along)) for line in drawn)
    return [Point(line, one.permutation, one.p_value) for line, one in measured if one is not None]


def whole(shown: Sequence[Point]) -> Span:
    """Return the range that holds every score and every null, and 1, the score of equal weights."""
    lows = [min(point.null.observed, float(point.null.scores.min())) for point in shown]
    low = min(0.0, *lows)
    return low - 0.02 * (1 - low), 1.0


def enlarged(shown: Sequence[Point]) -> Span | None:
    """Return the range of all nulls, a little widened; None where the whole axis shows them well."""
    low = min(float(point.null.scores.min()) for point in shown)
    high = max(float(point.null.scores.max()) for point in shown)
    room = 0.25 * max(high - low, 1e-6)
    everything = whole(shown)
    return (low - room, high + room) if everything[1] - everything[0] > ENLARGED * (high - low) else None


def axis(shown: Sequence[Point], span: Span, name: str) -> Markup:
    """Return the picture: a row for each model, all on one scale; `name` is unique on its page."""
    across, bottom = svg.linear(*span, LEFT, RIGHT), TOP + HIGH * len(shown)
    steps = [(across(step), f"{step:.3g}") for step in svg.round_steps(*span, 5)]
    parts = (
        *_legend(),
        *(
            svg.path("".join(f"M{x:g} {TOP + HIGH * row + 37}v14" for row in range(len(shown))), "grid")
            for x, _ in steps
        ),
        *below(steps, bottom + 1),
        *(svg.group(*_row(point, across, TOP + HIGH * number)) for number, point in enumerate(shown)),
        svg.path(f"M{LEFT} {bottom}H{RIGHT}", "line"),
        svg.text("score on the test coordinates", WIDTH / 2, bottom + 36, "axis", "middle"),
    )
    title = f"Scores of {len(shown)} pairs on one axis from {_number(span[0])} to {_number(span[1])}"
    return svg.picture("controls", (WIDTH, bottom + 44), parts, title, name, "; ".join(map(_described, shown)))


def _described(point: Point) -> str:
    return f"{point.line.name}, {point.line.role.value}: {_figures(point)}"


def _figures(point: Point) -> str:
    low, high = point.null.range
    return (
        f"{point.line.row.verdict.name}, {_number(point.null.observed)}; null {_number(low)} to {_number(high)}, "
        f"p = {point.p_value:.3g}"
    )


def _row(point: Point, across: svg.Scale, top: float) -> Iterator[Markup]:
    """The name of a model and its figures, and below them its null and its score."""
    null, role, y = point.null, point.line.role, top + 44
    ends = [across(float(end)) for end in (null.scores.min(), null.scores.max())]
    low, high = (across(end) for end in null.range)
    yield svg.element("title", _described(point))
    yield svg.text(svg.shortened(point.line.name, LETTERS), LEFT, top + 16, "strong" if role is Role.PAIR else "")
    yield svg.text(role.value, RIGHT, top + 16, anchor="end")
    yield svg.text(_figures(point), LEFT, top + 31)
    yield svg.path(f"M{LEFT} {y}H{RIGHT}", "grid")
    yield svg.path(f"M{ends[0]:g} {y}H{ends[1]:g}", "line")
    yield svg.rect(low, y - 5, max(high - low, 1.0), 10, "bar")
    yield _score(role, across(null.observed), y)


def _score(role: Role, x: float, y: float) -> Markup:
    """The mark of a score, or an arrow where it lies beyond the end of the axis."""
    if x > RIGHT or x < LEFT:
        end, step = (RIGHT + 8, -9) if x > RIGHT else (LEFT - 8, 9)
        return svg.path(f"M{end} {y}l{step} -6v12z", "dot model")
    shape, size, kind = SHAPES[role]
    return svg.mark(shape, x, y, size, kind)


def _legend() -> Iterator[Markup]:
    for role, x in {Role.PAIR: LEFT + 8, Role.INDEPENDENT: LEFT + 82, Role.RELATIVE: LEFT + 174}.items():
        yield _score(role, x, 10)
        yield svg.text(role.value, x + 12, 14)
    yield svg.rect(LEFT + 240, 5, 20, 10, "bar")
    yield svg.text("its own null", LEFT + 266, 14)


def _number(value: float) -> str:
    return svg.signed(f"{value + 0.0:.3f}")


def render(controlled: Controlled, explain: bool = False) -> str:
    """Return the page; `explain` adds nothing, the page of the pair alone has every layer."""
    del explain
    reports = (controlled.pair, *(one.report for one in controlled.controls))
    private = {name: short for report in reports for name, short in public.names(report).items()}
    again, controlled = command(controlled), _public(controlled, private)
    drawn, pair = lines(controlled), controlled.pair
    return fill(
        "controls/controls.html.j2",
        pair=pair,
        name=printable(pair.model, 200),
        base=controlled.base,
        base_name=printable(controlled.base, 200),
        moment=moment(pair.checked_at),
        banners=[(line.row, wording.reason(line.row), outcome(line)) for line in drawn if line.role is Role.PAIR],
        remarks=list(remarks(controlled)),
        meaning_of_controls=MEANING,
        paths=list(_axes(drawn)),
        columns=COLUMNS,
        rows=list(_cells(drawn)),
        outcomes=[outcome(line) for line in drawn if line.role is not Role.PAIR],
        limits=advice.LIMITS,
        models=list(_models(controlled)),
        command=f"{again} --format html",
        settings=wording.settings(pair),
    )


def _public(controlled: Controlled, private: Mapping[str, str]) -> Controlled:
    """The same without the paths of this machine, as on the page of one report."""
    controls = (
        replace(one, report=public.public(one.report), declares=private.get(one.declares, one.declares))
        for one in controlled.controls
    )
    base = private.get(controlled.base, controlled.base)
    return Controlled(base, public.public(controlled.pair), tuple(controls))


def _models(controlled: Controlled) -> Iterator[tuple[str, str, Commit]]:
    """What was compared, each with its commit."""
    pair = controlled.pair
    yield "Model", pair.model, commit_of_model(pair)
    yield from (("Base", row.claim.base, commit_of_base(row)) for row in pair.rows[:1])
    yield from (("Control", one.report.model, commit_of_model(one.report)) for one in controlled.controls)


def _axes(drawn: Sequence[Line]) -> Iterator[tuple[str, Markup, Markup | None, str]]:
    """For each path its axis, the same enlarged where the nulls are small, and the models that are not on it."""
    for along in dict.fromkeys(one for line in drawn for one in line.row.verdict.evidence):
        shown = points(drawn, along)
        close = enlarged(shown)
        absent = [line for line in drawn if all(point.line is not line for point in shown)]
        named = "; ".join(f"{line.name} ({line.row.verdict.words})" for line in absent)
        near = axis(shown, close, f"{along}-close") if close else None
        yield along, axis(shown, whole(shown), along), near, named


def _cells(drawn: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    for line in drawn:
        tone = KINDS[line.row.verdict.kind].tone
        for first, *rest, words in cells(line):
            yield identifier(first) if first else "", *rest, word(words, tone)
