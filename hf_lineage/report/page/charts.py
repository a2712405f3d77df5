"""Charts in SVG: the permutation null with the score on it, what each layer inherits, trace concentration by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hf_lineage.evidence import Evidence
from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.report.page.markup import Markup, joined, tag

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 360, 44, 348, 26, 150
"""The frame of a chart; what is below holds ticks and the name of the axis."""
BINS = 24
FAR = 0.72
"""Where the axis of the null ends if the score lies so far off that it would leave the null a single bar."""
HALF = 0.5
"""The share from which on a layer comes from the base."""
NEAR = 1.5
"""How many times the null's own range the axis may grow to reach the score before it is broken instead."""

Scale = Callable[[float], float]


def histogram(null: PermutationNull, name: str) -> Markup:
    """Return how often the permutations reached which score, and where the observed score lies."""
    low, high = _range(null)
    reach = (min(low, null.observed), max(high, null.observed))
    broken = reach[1] - reach[0] > NEAR * (high - low)
    axis = (low, high) if broken else reach
    scale = _scale(*axis, LEFT, LEFT + FAR * (RIGHT - LEFT) if broken else RIGHT)
    at = LEFT + 0.9 * (RIGHT - LEFT) if broken else scale(null.observed)
    counts, edges = np.histogram(null.scores, BINS, (low, high))
    tall = _scale(0, int(counts.max()), BOTTOM, TOP + 14)
    bars = (
        tag("rect", x=scale(left), y=tall(count), width=max(scale(right) - scale(left) - 0.6, 0.5),
            height=BOTTOM - tall(count), class_="bar")
        for count, left, right in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if count
    )  # fmt: skip
    title = (
        f"Histogram: {len(null.scores)} permutations reach {null.scores.min():.4f} to {null.scores.max():.4f}; "
        f"the observed score is {null.observed:.4f}"
    )
    return _chart(
        name, title, "score",
        *bars, _tall(int(counts.max()), tall), *_bottom_ticks(axis, scale), _baseline(),
        _break() if broken else "", _score(at, null.observed),
    )  # fmt: skip


def inheritance(evidence: Evidence, layers: int | None, name: str) -> Markup:
    """Return the inherited share of every layer of the model that was read, among all its layers."""
    inherited = evidence.inherited
    shares = [] if inherited is None else [float(share) for share in inherited.by_layer]
    numbers = (*evidence.layers[1], *evidence.left_out[1])
    most = max(*numbers, (layers or 0) - 1)
    wide = (RIGHT - LEFT) / (most + 1)
    up = _scale(0, 1, BOTTOM, TOP + 2)
    columns = (
        _column(LEFT + (layer + 0.12) * wide, 0.76 * wide, up(1), up(share), share > HALF)
        for layer, share in zip(evidence.layers[1], shares, strict=True)
    )
    grid = (
        joined(tag("path", d=f"M{LEFT} {up(step):g}H{RIGHT}", class_="grid"),
               tag("text", f"{step:.0%}", x=LEFT - 6, y=up(step) + 4, text_anchor="end", class_="tick"))
        for step in (0, 0.5, 1)
    )  # fmt: skip
    ticks = (
        tag("text", str(layer), x=LEFT + (layer + 0.5) * wide, y=BOTTOM + 16, text_anchor="middle", class_="tick")
        for layer in _whole_steps(0, most)
    )
    title = (
        f"Column chart of the share that each layer inherits: {len(shares)} layers, from {min(shares, default=0):.0%} "
        f"to {max(shares, default=0):.0%}; {sum(share > HALF for share in shares)} of them come from the base"
    )
    return _chart(name, title, "layer of the model", *columns, *grid, _baseline(), *ticks)


def _column(x: float, width: float, top: float, reach: float, from_base: bool) -> Markup:
    """The share of one layer on the whole of it; pale, with a broken outline, if it does not come from the base."""
    pale = "" if from_base else " pale"
    return joined(
        tag("rect", x=x, y=top, width=width, height=BOTTOM - top, class_=f"track{pale}"),
        tag("rect", x=x, y=reach - 1, width=width, height=BOTTOM + 1 - reach, class_=f"share{pale}"),
    )


def concentration(evidence: Evidence, name: str) -> Markup:
    """Return s(M) of every layer of both models, each over its own layer's number."""
    (of_base, of_candidate), (base_layers, candidate_layers) = evidence.comparison.concentration, evidence.layers
    across = _scale(min(*base_layers, *candidate_layers), max(*base_layers, *candidate_layers), LEFT + 8, RIGHT - 8)
    most = max(float(of_base.max()), float(of_candidate.max()), 1e-9)
    steps = _steps(0, most * 1.05, 4)
    up = _scale(0, max(steps[-1], most * 1.05), BOTTOM, TOP + 2)
    grid = (
        joined(tag("path", d=f"M{LEFT} {up(step):g}H{RIGHT}", class_="grid"),
               tag("text", f"{step:g}", x=LEFT - 6, y=up(step) + 4, text_anchor="end", class_="tick"))
        for step in steps
    )  # fmt: skip
    lines = (
        _series(kind, [(across(layer), up(float(value))) for layer, value in zip(layers, values, strict=True)])
        for kind, layers, values in (("base", base_layers, of_base), ("model", candidate_layers, of_candidate))
    )
    title = (
        f"Line chart of trace concentration by layer: the base from {of_base.min():.2f} to {of_base.max():.2f}, "
        f"the model from {of_candidate.min():.2f} to {of_candidate.max():.2f}"
    )
    numbers = (
        tag("text", str(layer), x=across(layer), y=BOTTOM + 16, text_anchor="middle", class_="tick")
        for layer in _whole_steps(min(*base_layers, *candidate_layers), max(*base_layers, *candidate_layers))
    )
    return _chart(name, title, "layer", *grid, _baseline(), *numbers, *lines, _legend())


def _chart(name: str, title: str, axis: str, *parts: object) -> Markup:
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        *parts,
        tag("text", axis, x=(LEFT + RIGHT) / 2, y=BOTTOM + 34, text_anchor="middle", class_="axis"),
        **{"class": "chart", "viewBox": f"0 0 {WIDTH} {BOTTOM + 42}", "role": "img"},
        aria_labelledby=f"{name}-title",
    )


def _range(null: PermutationNull) -> tuple[float, float]:
    """The range of the null, a little wider than it is, and never nothing."""
    low, high = float(null.scores.min()), float(null.scores.max())
    margin = max((high - low) * 0.08, 1e-4)
    return low - margin, high + margin


def _scale(low: float, high: float, start: float, stop: float) -> Scale:
    return lambda value: start + (value - low) / ((high - low) or 1) * (stop - start)


def _steps(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, at most so many and one."""
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * 0.999)
    return [round(step * index, 12) + 0.0 for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _whole_steps(low: int, high: int) -> list[int]:
    step = next(2**power for power in range(32) if high - low < 8 * 2**power)
    return list(range(low, high + 1, step))


def _bottom_ticks(axis: tuple[float, float], scale: Scale) -> Iterator[Markup]:
    for step in _steps(*axis, 4):
        yield tag("path", d=f"M{scale(step):g} {BOTTOM}v4", class_="line")
        yield tag("text", f"{step:g}".replace("-", "−"), x=scale(step), y=BOTTOM + 16, text_anchor="middle",
                  class_="tick")  # fmt: skip


def _tall(most: int, tall: Scale) -> Markup:
    """The vertical axis: its name, and the number of permutations in the tallest bar."""
    middle = (TOP + BOTTOM) / 2
    return joined(
        tag("text", str(most), x=LEFT - 6, y=tall(most) + 4, text_anchor="end", class_="tick"),
        tag("path", d=f"M{LEFT - 4} {tall(most):g}h4", class_="line"),
        tag(
            "text",
            "permutations",
            text_anchor="middle",
            class_="axis",
            transform=f"translate(13 {middle:g}) rotate(-90)",
        ),
    )  # fmt: skip


def _baseline() -> Markup:
    return tag("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", class_="line")


def _break() -> Markup:
    """Two strokes across the axis: what lies beyond is not to scale."""
    x = LEFT + (FAR + 0.05) * (RIGHT - LEFT)
    gap = tag("path", d=f"M{x:g} {BOTTOM}h8", class_="gap")
    strokes = tag("path", d=f"M{x - 3:g} {BOTTOM + 6}l6 -12M{x + 5:g} {BOTTOM + 6}l6 -12", class_="line")
    return joined(gap, strokes)


def _score(x: float, score: float) -> Markup:
    anchor = "end" if x > RIGHT - 40 else "start" if x < LEFT + 40 else "middle"
    return joined(
        tag("path", d=f"M{x:g} {BOTTOM}V{TOP}", class_="mark"),
        tag("path", d=f"M{x - 5:g} {TOP}h10l-5 8z", class_="tip"),
        tag("text", f"this pair: {score:.3f}", x=min(x, RIGHT), y=TOP - 8, text_anchor=anchor, class_="strong"),
    )


def _series(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return joined(
        tag("path", d=line, class_=f"series {kind}"),
        *(_dot(kind, x, y) for x, y in points if len(points) <= 32),
    )


def _dot(kind: str, x: float, y: float) -> Markup:
    """The base's dots are round, the model's square: not colour alone tells them apart."""
    if kind == "base":
        return tag("circle", cx=x, cy=y, r=4.5, class_=f"dot {kind}")
    return tag("rect", x=x - 2.5, y=y - 2.5, width=5, height=5, class_=f"dot {kind}")


def _legend() -> Markup:
    entries = (("base", LEFT + 8, "base"), ("model", LEFT + 82, "model"))
    return joined(
        *(
            joined(
                tag("path", d=f"M{x} 10h24", class_=f"series {kind}"),
                _dot(kind, x + 12, 10.0),
                tag("text", label, x=x + 30, y=14, class_="tick"),
            )
            for kind, x, label in entries
        )
    )
