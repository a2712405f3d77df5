"""Charts: the permutation null with the score on it, what each layer inherits, trace concentration, and small bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from markupsafe import Markup

from hf_lineage.evidence.permutation import PermutationNull
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.report.page import Scale, below, every, linear, mark, path, picture, rect, round_steps, side_name, text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 360, 44, 348, 26, 150
"""The frame of a chart; what is below holds ticks and the name of the axis."""
MIDDLE = (LEFT + RIGHT) / 2
BAR, THICK = 200, 14
"""Width and height of a small bar beside a number."""
THIN = 3.0
"""Pixels that the range of independent models takes at least, to be seen."""
TIP = 5
"""Half the width of the mark of a score."""
BINS = 24
FAR = 0.72
"""Share of the width for the null's axis, if the score lies so far off that it would leave the null a single bar."""
HALF = 0.5
"""The share from which on a layer comes from the base."""
NEAR = 1.5
"""Multiple of the null's own range that the axis may reach for the score before it is broken instead."""
MOST_DOTS = 32


def interval_bar(
    label: str, share: float | None, interval: tuple[float, float], line: str = "gap", fill: str = "share"
) -> Markup:
    """Return a bar from nothing to a share of the whole, and the interval that holds it; no bar where it is None."""
    low, high = (BAR * min(max(end, 0.0), 1.0) for end in interval)
    parts = [rect(0, 0, BAR, THICK, "track")]
    parts += [] if share is None else [rect(0, 0, BAR * min(max(share, 0.0), 1.0), THICK, fill)]
    parts += [path(f"M{low:g} {THICK / 2:g}H{max(high, low + 0.5):g}", line)] if interval[0] < interval[1] else []
    return picture("small", (BAR, THICK), parts, label)


def share_bar(share: float, interval: tuple[float, float]) -> Markup:
    """Return the bar of what is inherited, with the interval where it has any width."""
    low, high = (f"{end:.0%}" for end in interval)
    between = "" if low == high else f", between {low} and {high}"
    return interval_bar(f"{share:.0%} inherited{between}", share, interval if between else (share, share))


def score_bar(null: PermutationNull) -> Markup:
    """Return a scale from 0 to 1 with the range of independent models on it, and the score of this pair."""
    low, high = null.range
    start, end, score = (BAR * min(max(value, 0.0), 1.0) for value in (low, high, null.observed))
    at = min(max(score, TIP), BAR - TIP)
    parts = (
        rect(0, 4, BAR, 6, "track"),
        rect(min(start, BAR - THIN), 1, max(end - start, THIN), 12, "chance"),
        path(f"M{at:g} 14V4M{at - TIP:g} 0h{2 * TIP}l-{TIP} 6z", "score"),
    )
    label = f"On a scale from 0 to 1: independent models score {low:.3f} to {high:.3f}, this pair {null.observed:.3f}"
    return picture("small", (BAR, THICK), parts, label)


def histogram(null: PermutationNull, name: str) -> Markup:
    """Return how often the permutations reached which score, and where the observed score lies."""
    low, high = _range(null)
    reach = (min(low, null.observed), max(high, null.observed))
    broken = reach[1] - reach[0] > NEAR * (high - low)
    axis = (low, high) if broken else reach
    across = linear(*axis, LEFT, LEFT + FAR * (RIGHT - LEFT) if broken else RIGHT)
    at = LEFT + 0.9 * (RIGHT - LEFT) if broken else across(null.observed)
    counts, edges = np.histogram(null.scores, BINS, (low, high))
    most, ends = int(counts.max()), [across(edge) for edge in edges.tolist()]
    up = linear(0, most, BOTTOM, TOP + 14)
    parts = (
        *(
            rect(left, up(count), max(right - left - 0.6, 0.5), BOTTOM - up(count), "bar")
            for count, left, right in zip(counts.tolist(), ends[:-1], ends[1:], strict=True)
            if count
        ),
        text(str(most), LEFT - 6, up(most) + 4, anchor="end"),
        path(f"M{LEFT - 4} {up(most):g}h4", "line"),
        side_name("permutations", (TOP + BOTTOM) / 2),
        *(path(f"M{across(step):g} {BOTTOM}v4", "line") for step in round_steps(*axis, 4)),
        *below(((across(step), f"{step:g}") for step in round_steps(*axis, 4)), BOTTOM),
        _baseline(),
        *(_break() if broken else ()),
        *_score(at, null.observed),
    )
    title = (
        f"Histogram: {len(null.scores)} permutations reach {null.scores.min():.4f} to {null.scores.max():.4f}; "
        f"the observed score is {null.observed:.4f}"
    )
    return _chart(name, title, "score", parts)


def inheritance(evidence: Evidence, layers: int | None, name: str) -> Markup:
    """Return the inherited share of every layer of the model that was read, among all its layers."""
    inherited = evidence.inherited
    shares = [] if inherited is None else [float(share) for share in inherited.by_layer]
    most = max(*evidence.layers[1], (layers or 0) - 1)
    wide = (RIGHT - LEFT) / (most + 1)
    up = linear(0, 1, BOTTOM, TOP + 2)
    parts = (
        *(
            column
            for layer, share in zip(evidence.layers[1], shares, strict=True)
            for column in _column(LEFT + (layer + 0.12) * wide, 0.76 * wide, up, share)
        ),
        *_grid(up, {step: f"{step:.0%}" for step in (0, 0.5, 1)}),
        _baseline(),
        *below(((LEFT + (layer + 0.5) * wide, str(layer)) for layer in _whole_steps(0, most)), BOTTOM),
    )
    title = (
        f"Column chart of the share that each layer inherits: {len(shares)} layers, from {min(shares, default=0):.0%} "
        f"to {max(shares, default=0):.0%}; {sum(share > HALF for share in shares)} of them come from the base"
    )
    return _chart(name, title, "layer of the model", parts)


def _column(x: float, width: float, up: Scale, share: float) -> Iterator[Markup]:
    """Yield the share of one layer on the whole of it; pale, with a broken outline, if it is not the base's."""
    pale = "" if share > HALF else " pale"
    yield rect(x, up(1), width, BOTTOM - up(1), f"track{pale}")
    yield rect(x, up(share) - 1, width, BOTTOM + 1 - up(share), f"share{pale}")


def concentration(evidence: Evidence, name: str) -> Markup:
    """Return s(M) of every layer of both models, each over its own layer's number."""
    (of_base, of_candidate), (base_layers, candidate_layers) = evidence.comparison.concentration, evidence.layers
    first, last = min(*base_layers, *candidate_layers), max(*base_layers, *candidate_layers)
    across = linear(first, last, LEFT + 8, RIGHT - 8)
    most = max(float(of_base.max()), float(of_candidate.max()), 1e-9) * 1.05
    steps = round_steps(0, most, 4)
    up = linear(0, max(steps[-1], most), BOTTOM, TOP + 2)
    parts = (
        *_grid(up, {step: f"{step:g}" for step in steps}),
        _baseline(),
        *below(((across(layer), str(layer)) for layer in _whole_steps(first, last)), BOTTOM),
        *_series("base", [*map(across, base_layers)], [*map(up, of_base.tolist())]),
        *_series("model", [*map(across, candidate_layers)], [*map(up, of_candidate.tolist())]),
        *_legend("base", LEFT + 8),
        *_legend("model", LEFT + 82),
    )
    title = (
        f"Line chart of trace concentration by layer: the base from {of_base.min():.2f} to {of_base.max():.2f}, "
        f"the model from {of_candidate.min():.2f} to {of_candidate.max():.2f}"
    )
    return _chart(name, title, "layer", parts)


def _chart(name: str, title: str, axis: str, parts: Iterable[Markup]) -> Markup:
    words = text(axis, MIDDLE, BOTTOM + 34, "axis", "middle")
    return picture("chart", (WIDTH, BOTTOM + 42), (*parts, words), title, name)


def _baseline() -> Markup:
    return path(f"M{LEFT} {BOTTOM}H{RIGHT}", "line")


def _grid(up: Scale, steps: dict[float, str]) -> Iterator[Markup]:
    """Yield a line across the chart for each step, with its number on the left."""
    for step, number in steps.items():
        yield path(f"M{LEFT} {up(step):g}H{RIGHT}", "grid")
        yield text(number, LEFT - 6, up(step) + 4, anchor="end")


def _range(null: PermutationNull) -> tuple[float, float]:
    """Return the range of the null, a little wider than it is, and never nothing."""
    low, high = float(null.scores.min()), float(null.scores.max())
    margin = max((high - low) * 0.08, 1e-4)
    return low - margin, high + margin


def _whole_steps(low: int, high: int) -> range:
    return range(low, high + 1, every((high - low + 1) / 8))


def _break() -> Iterator[Markup]:
    """Yield two strokes across the axis: what lies beyond is not to scale."""
    x = LEFT + (FAR + 0.05) * (RIGHT - LEFT)
    yield path(f"M{x:g} {BOTTOM}h8", "gap")
    yield path(f"M{x - 3:g} {BOTTOM + 6}l6 -12M{x + 5:g} {BOTTOM + 6}l6 -12", "line")


def _score(x: float, score: float) -> Iterator[Markup]:
    anchor = "end" if x > RIGHT - 40 else "start" if x < LEFT + 40 else "middle"
    yield path(f"M{x:g} {BOTTOM}V{TOP}", "mark")
    yield path(f"M{x - 5:g} {TOP}h10l-5 8z", "tip")
    yield text(f"this pair: {score:.3f}", min(x, RIGHT), TOP - 8, "strong", anchor)


def _series(kind: str, xs: Sequence[float], ys: Sequence[float]) -> Iterator[Markup]:
    yield path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True)), f"series {kind}")
    if len(xs) <= MOST_DOTS:
        yield from (_dot(kind, x, y) for x, y in zip(xs, ys, strict=True))


def _dot(kind: str, x: float, y: float) -> Markup:
    return mark("circle", x, y, 4.5, "dot base") if kind == "base" else mark("square", x, y, 2.5, "dot model")


def _legend(kind: str, x: float) -> Iterator[Markup]:
    yield path(f"M{x} 10h24", f"series {kind}")
    yield _dot(kind, x + 12, 10.0)
    yield text(kind, x + 30, 14)
