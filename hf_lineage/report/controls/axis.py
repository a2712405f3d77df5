"""The scores of a pair and of its controls on one axis, each with its own null, as a picture in SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.report.controls.rows import Line, Role
from hf_lineage.report.page import Markup, joined, tag

WIDTH, LEFT, RIGHT, TOP, HIGH = 360, 14, 346, 30, 58
"""The picture as wide as a phone shows it, where the axis lies in it, where the first model begins, and its height."""
LETTERS = 38
"""Letters of a name for which there is room."""
ENLARGED = 3.0
"""How many times the range of the nulls the scores have to span before the nulls are shown enlarged as well."""
Span = tuple[float, float]
Scale = Callable[[float], float]


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
    height = TOP + HIGH * len(shown) + 44
    scale = _scale(span)
    bottom = TOP + HIGH * len(shown)
    return tag(
        "svg",
        tag("title", f"Scores of {len(shown)} pairs on one axis from {_number(span[0])} to {_number(span[1])}",
            id=f"{name}-title"),
        tag("desc", "; ".join(_described(point) for point in shown), id=f"{name}-desc"),
        *_legend(),
        *_ticks(span, scale, len(shown)),
        *(tag("g", *_row(point, scale, TOP + HIGH * number)) for number, point in enumerate(shown)),
        tag("path", d=f"M{LEFT} {bottom}H{RIGHT}", class_="line"),
        tag("text", "score on the test coordinates", x=WIDTH / 2, y=bottom + 36, text_anchor="middle", class_="axis"),
        **{"class": "controls", "viewBox": f"0 0 {WIDTH} {height}", "role": "img"},
        aria_labelledby=f"{name}-title {name}-desc",
    )  # fmt: skip


def _described(point: Point) -> str:
    return f"{point.line.name}, {point.line.role.value}: {_figures(point)}"


def _figures(point: Point) -> str:
    low, high = point.null.range
    return (
        f"{point.line.row.verdict.name}, {_number(point.null.observed)}; null {_number(low)} to {_number(high)}, "
        f"p = {point.p_value:.3g}"
    )


def _row(point: Point, scale: Scale, top: float) -> Iterator[Markup]:
    """The name of a model and its figures, and below them its null and its score."""
    null, y = point.null, top + 44
    ends = [scale(float(end)) for end in (null.scores.min(), null.scores.max())]
    low, high = (scale(end) for end in null.range)
    yield tag("title", _described(point))
    yield tag("text", _short(point.line.name, LETTERS), x=LEFT, y=top + 16,
              class_="strong" if point.line.role is Role.PAIR else None)  # fmt: skip
    yield tag("text", point.line.role.value, x=RIGHT, y=top + 16, text_anchor="end", class_="tick")
    yield tag("text", _figures(point), x=LEFT, y=top + 31, class_="tick")
    yield tag("path", d=f"M{LEFT} {y}H{RIGHT}", class_="grid")
    yield tag("path", d=f"M{ends[0]:g} {y}H{ends[1]:g}", class_="line")
    yield tag("rect", x=low, y=y - 5, width=max(high - low, 1.0), height=10, class_="bar")
    yield _mark(point, scale, y)


def _mark(point: Point, scale: Scale, y: float) -> Markup:
    """The score, or an arrow where it lies beyond the end of the axis."""
    x = scale(point.null.observed)
    if x > RIGHT or x < LEFT:
        end, step = (RIGHT + 8, -9) if x > RIGHT else (LEFT - 8, 9)
        return tag("path", d=f"M{end} {y}l{step} -6v12z", class_="dot model")
    return _shape(point.line.role, x, y)


def _shape(role: Role, x: float, y: float) -> Markup:
    """A diamond for the pair, a circle for a model named as independent, a square for a relative."""
    if role is Role.PAIR:
        return tag("path", d=f"M{x - 8:g} {y:g}l8 -8l8 8l-8 8z", class_="dot model")
    if role is Role.INDEPENDENT:
        return tag("circle", cx=x, cy=y, r=5, class_="dot model ring")
    return tag("rect", x=x - 5, y=y - 5, width=10, height=10, class_="dot model ring")


def _legend() -> Iterator[Markup]:
    places = {Role.PAIR: LEFT + 8, Role.INDEPENDENT: LEFT + 82, Role.RELATIVE: LEFT + 174}
    for role, x in places.items():
        yield joined(_shape(role, x, 10), tag("text", role.value, x=x + 12, y=14, class_="tick"))
    yield joined(
        tag("rect", x=LEFT + 240, y=5, width=20, height=10, class_="bar"),
        tag("text", "its own null", x=LEFT + 266, y=14, class_="tick"),
    )


def _ticks(span: Span, scale: Scale, rows: int) -> Iterator[Markup]:
    """A number below the axis, and a stroke above it in each row, where there is no text."""
    bottom = TOP + HIGH * rows
    rough = (span[1] - span[0]) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * 0.999)
    for number in range(math.ceil(span[0] / step), math.floor(span[1] / step) + 1):
        x = scale(number * step)
        strokes = "".join(f"M{x:g} {TOP + HIGH * row + 37}v14" for row in range(rows))
        yield tag("path", d=strokes, class_="grid")
        yield tag("text", f"{number * step + 0.0:.3g}".replace("-", "−"), x=x, y=bottom + 17, text_anchor="middle",
                  class_="tick")  # fmt: skip


def _scale(span: Span) -> Scale:
    return lambda value: LEFT + (value - span[0]) / (span[1] - span[0]) * (RIGHT - LEFT)


def _number(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-", "−")


def _short(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: room - 1]}…"
