"""The scores of a pair and of its controls on one axis, each with its own null, as a picture in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.report.controls.rows import Line, Role
from hf_lineage.report.page import (
    Scale,
    below,
    element,
    group,
    linear,
    mark,
    path,
    picture,
    rect,
    round_steps,
    shortened,
    signed,
    text,
)

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


def points(drawn: Sequence[Line], path: str) -> list[Point]:
    """Return the models that were measured along a path."""
    measured = ((line, line.row.verdict.evidence.get(path)) for line in drawn)
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
    across, bottom = linear(*span, LEFT, RIGHT), TOP + HIGH * len(shown)
    steps = [(across(step), f"{step:.3g}") for step in round_steps(*span, 5)]
    parts = (
        *_legend(),
        *(path("".join(f"M{x:g} {TOP + HIGH * row + 37}v14" for row in range(len(shown))), "grid") for x, _ in steps),
        *below(steps, bottom + 1),
        *(group(*_row(point, across, TOP + HIGH * number)) for number, point in enumerate(shown)),
        path(f"M{LEFT} {bottom}H{RIGHT}", "line"),
        text("score on the test coordinates", WIDTH / 2, bottom + 36, "axis", "middle"),
    )
    title = f"Scores of {len(shown)} pairs on one axis from {_number(span[0])} to {_number(span[1])}"
    return picture("controls", (WIDTH, bottom + 44), parts, title, name, "; ".join(map(_described, shown)))


def _described(point: Point) -> str:
    return f"{point.line.name}, {point.line.role.value}: {_figures(point)}"


def _figures(point: Point) -> str:
    low, high = point.null.range
    return (
        f"{point.line.row.verdict.name}, {_number(point.null.observed)}; null {_number(low)} to {_number(high)}, "
        f"p = {point.p_value:.3g}"
    )


def _row(point: Point, across: Scale, top: float) -> Iterator[Markup]:
    """The name of a model and its figures, and below them its null and its score."""
    null, role, y = point.null, point.line.role, top + 44
    ends = [across(float(end)) for end in (null.scores.min(), null.scores.max())]
    low, high = (across(end) for end in null.range)
    yield element("title", _described(point))
    yield text(shortened(point.line.name, LETTERS), LEFT, top + 16, "strong" if role is Role.PAIR else "")
    yield text(role.value, RIGHT, top + 16, anchor="end")
    yield text(_figures(point), LEFT, top + 31)
    yield path(f"M{LEFT} {y}H{RIGHT}", "grid")
    yield path(f"M{ends[0]:g} {y}H{ends[1]:g}", "line")
    yield rect(low, y - 5, max(high - low, 1.0), 10, "bar")
    yield _score(role, across(null.observed), y)


def _score(role: Role, x: float, y: float) -> Markup:
    """The mark of a score, or an arrow where it lies beyond the end of the axis."""
    if x > RIGHT or x < LEFT:
        end, step = (RIGHT + 8, -9) if x > RIGHT else (LEFT - 8, 9)
        return path(f"M{end} {y}l{step} -6v12z", "dot model")
    shape, size, kind = SHAPES[role]
    return mark(shape, x, y, size, kind)


def _legend() -> Iterator[Markup]:
    for role, x in {Role.PAIR: LEFT + 8, Role.INDEPENDENT: LEFT + 82, Role.RELATIVE: LEFT + 174}.items():
        yield _score(role, x, 10)
        yield text(role.value, x + 12, 14)
    yield rect(LEFT + 240, 5, 20, 10, "bar")
    yield text("its own null", LEFT + 266, 14)


def _number(value: float) -> str:
    return signed(f"{value + 0.0:.3f}")
