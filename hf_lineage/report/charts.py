"""Charts in SVG: the similarity of all layers, what each layer inherits, the permutation null, and small bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from hf_lineage.evidence.permutation import PermutationNull
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.report.page import (
    Scale,
    below,
    element,
    every,
    linear,
    path,
    picture,
    rect,
    round_steps,
    side_name,
    signed,
    text,
)

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 360, 44, 348, 26, 150
"""The frame of a chart; what is below holds ticks and the name of the axis."""
BASELINE = f"M{LEFT} {BOTTOM}H{RIGHT}"
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
    least, largest = float(null.scores.min()), float(null.scores.max())
    margin = max((largest - least) * 0.08, 1e-4)
    low, high = least - margin, largest + margin
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
        path(BASELINE, "line"),
        *(_break() if broken else ()),
        *_score(at, null.observed),
    )
    title = (
        f"Histogram: {len(null.scores)} permutations reach {least:.4f} to {largest:.4f}; "
        f"the observed score is {null.observed:.4f}"
    )
    return _chart(name, title, "score", parts)


def inheritance(evidence: Evidence, layers: int | None, name: str) -> Markup:
    """Return the inherited share of every layer of the model that was read, among all its layers."""
    shares = [float(share) for share in evidence.inherited.by_layer] if evidence.inherited else []
    most = max(*evidence.layers[1], (layers or 0) - 1)
    wide = (RIGHT - LEFT) / (most + 1)
    up = linear(0, 1, BOTTOM, TOP + 2)
    steps = range(0, most + 1, every((most + 1) / 8))
    parts = (
        *(
            column
            for layer, share in zip(evidence.layers[1], shares, strict=True)
            for column in _column(LEFT + (layer + 0.12) * wide, 0.76 * wide, up, share)
        ),
        *(path(f"M{LEFT} {up(step):g}H{RIGHT}", "grid") for step in (0, 0.5, 1)),
        *(text(f"{step:.0%}", LEFT - 6, up(step) + 4, anchor="end") for step in (0, 0.5, 1)),
        path(BASELINE, "line"),
        *below(((LEFT + (layer + 0.5) * wide, str(layer)) for layer in steps), BOTTOM),
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


def _chart(name: str, title: str, axis: str, parts: Iterable[Markup]) -> Markup:
    words = text(axis, (LEFT + RIGHT) / 2, BOTTOM + 34, "axis", "middle")
    return picture("chart", (WIDTH, BOTTOM + 42), (*parts, words), title, name)


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


VIRIDIS = (
    *("#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c"),
    *("#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"),
)
"""Equal steps of a cosine from 0 to 1 as equal steps to the eye (viridis by Smith and van der Walt, CC0)."""
LEVELS = 33
"""The number of colours; cells of one colour are one shape, so that 128 layers stay a small file."""
SIDE, MAP_LEFT, MAP_TOP = 304, 48, 6
"""The longer side of the map, and where it begins."""
MOST_NUMBERS = 12
"""Layers up to which there is room for the cosine in each cell."""
ROOM = 100
"""Pixels that the name of an axis takes."""
BRIGHT = 0.42
"""The cosine from which a cell is so bright that black shows better on it than white."""


def heat_map(evidence: Evidence, name: str) -> Markup:
    """Return the picture; `name` is unique on its page."""
    similarity, (base, candidate) = evidence.comparison.similarity, evidence.layers
    rows, columns = similarity.shape
    cell = SIDE / max(rows, columns)
    wide, high = columns * cell, rows * cell
    parts = (
        _cells(similarity, cell),
        *(_numbers(similarity, cell) if max(rows, columns) <= MOST_NUMBERS else ()),
        *_pairs(evidence, cell),
        *(text(number, MAP_LEFT - 6, MAP_TOP + at + 4, anchor="end") for at, number in _ticks(base, 14, cell)),
        *below(((MAP_LEFT + at, number) for at, number in _ticks(candidate, 24, cell)), MAP_TOP + high),
        side_name("layer of the base" if high > ROOM else "base", MAP_TOP + high / 2),
        text("layer of the model", MAP_LEFT + wide / 2, MAP_TOP + high + 34, "axis", "middle"),
        *_colour_bar(MAP_TOP + high + 52),
    )
    cosines = evidence.comparison.by_layer
    title = (
        f"Heat map: {rows} layers of the base against {columns} of the model; the {len(cosines)} pairs that are "
        f"outlined have cosines from {cosines.min():.3f} to {cosines.max():.3f}"
    )
    return picture("heat", (WIDTH, MAP_TOP + high + 84), parts, title, name)


def _ticks(layers: Sequence[int], room: int, cell: float) -> list[tuple[float, str]]:
    """Return places and numbers of the layers that are named; `room` is what a number takes, in pixels."""
    return [((index + 0.5) * cell, str(layers[index])) for index in range(0, len(layers), every(room / cell))]


def colour(cosine: float) -> str:
    """Return the colour of a cosine; below 0 that of 0.

    >>> colour(-0.3), colour(0.5), colour(1.0)
    ('#440154', '#21918c', '#fde725')
    """
    return _colour(int(_levels(np.array(cosine))))


def _levels(similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.clip(similarity, 0, 1) * (LEVELS - 1)).astype(np.int64)


def _colour(level: int) -> str:
    """Return the colour of a level: that of the scale, or half-way between two of its colours."""
    step = level * (len(VIRIDIS) - 1) / (LEVELS - 1)
    low, high = (bytes.fromhex(VIRIDIS[int(end)][1:]) for end in (np.floor(step), np.ceil(step)))
    return "#" + bytes((a + b) // 2 for a, b in zip(low, high, strict=True)).hex()


def _cells(similarity: NDArray[np.float64], cell: float) -> Markup:
    """Return all cells, those of one colour as one shape, in units of a cell."""
    levels = _levels(similarity)
    shapes: dict[int, list[str]] = {}
    for row, line in enumerate(levels):
        column = 0
        for level, run in groupby(line):
            length = sum(1 for _ in run)
            shapes.setdefault(int(level), []).append(f"M{column} {row}h{length}v1h-{length}z")
            column += length
    drawn = (path("".join(shapes[level]), fill=_colour(level)) for level in sorted(shapes))
    place = f"translate({MAP_LEFT} {MAP_TOP}) scale({cell:g})"
    return element("g", *drawn, kind="cells", transform=place, shape_rendering="crispEdges")


def _numbers(similarity: NDArray[np.float64], cell: float) -> Iterator[Markup]:
    size = min(13.0, cell * 0.38)
    for (row, column), cosine in np.ndenumerate(similarity):
        x, y = MAP_LEFT + (column + 0.5) * cell, MAP_TOP + (row + 0.5) * cell + size * 0.36
        number = signed(f"{round(float(cosine), 2) + 0.0:.2f}".replace("0.", "."))
        yield text(number, x, y, _on(cosine), "middle", font_size=size)


def _pairs(evidence: Evidence, cell: float) -> Iterator[Markup]:
    """Yield an outline around every paired cell, which says what it is where a pointer rests on it."""
    (base, candidate), comparison = evidence.layers, evidence.comparison
    line = max(0.6, min(2.5, cell * 0.09))
    side, corner = cell - 2 * line, min(3.0, cell * 0.1)
    for row, column in zip(*comparison.pairs, strict=True):
        cosine = float(comparison.similarity[row, column])
        label = f"layer {base[row]} of the base, layer {candidate[column]} of the model: {cosine:.3f}"
        yield element(
            *("rect", element("title", label)),
            **{"x": MAP_LEFT + column * cell + line, "y": MAP_TOP + row * cell + line, "width": side, "height": side},
            **{"rx": corner, "kind": f"pair {_on(cosine)}", "stroke_width": line},
        )


def _on(cosine: float) -> str:
    return "dark" if cosine >= BRIGHT else "light"


def _colour_bar(top: float) -> Iterator[Markup]:
    width = SIDE / LEVELS
    yield from (rect(MAP_LEFT + level * width, top, width + 0.5, 10, fill=_colour(level)) for level in range(LEVELS))
    ends = {"start": "0: independent", "middle": "0.5", "end": "1: the same"}
    for step, (anchor, label) in enumerate(ends.items()):
        yield text(label, MAP_LEFT + step * SIDE / 2, top + 25, anchor=anchor)
