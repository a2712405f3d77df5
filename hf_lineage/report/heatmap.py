"""The similarity of all layers of two models as a picture in SVG, the assignment outlined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from hf_lineage.evidence.verdict import Evidence
from hf_lineage.report.page import below, element, every, group, path, picture, rect, side_name, signed, text

VIRIDIS = (
    *("#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c"),
    *("#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"),
)
"""Equal steps of a cosine from 0 to 1 as equal steps to the eye (viridis by Smith and van der Walt, CC0)."""
LEVELS = 33
"""The number of colours; cells of one colour are one shape, so that 128 layers stay a small file."""
WIDTH, SIDE, LEFT, TOP = 360, 304, 48, 6
"""The picture as wide as a phone shows it, the longer side of the map in it, and where the map begins."""
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
        *(text(number, LEFT - 6, TOP + at * cell + 4, anchor="end") for at, number in ticks(base, 14 / cell)),
        *below(((LEFT + at * cell, number) for at, number in ticks(candidate, 24 / cell)), TOP + high),
        side_name("layer of the base" if high > ROOM else "base", TOP + high / 2),
        text("layer of the model", LEFT + wide / 2, TOP + high + 34, "axis", "middle"),
        *_colour_bar(TOP + high + 52),
    )
    return picture("heat", (WIDTH, TOP + high + 84), parts, _title(evidence), name)


def ticks(layers: Sequence[int], apart: float) -> Iterator[tuple[float, str]]:
    """Yield places and numbers of the layers that are named, in cells; `apart` is what a number takes."""
    step = every(apart)
    yield from ((index + 0.5, str(layers[index])) for index in range(0, len(layers), step))


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
    place = f"translate({LEFT} {TOP}) scale({cell:g})"
    return group(*drawn, kind="cells", transform=place, shape_rendering="crispEdges")


def _numbers(similarity: NDArray[np.float64], cell: float) -> Iterator[Markup]:
    size = min(13.0, cell * 0.38)
    for (row, column), cosine in np.ndenumerate(similarity):
        x, y = LEFT + (column + 0.5) * cell, TOP + (row + 0.5) * cell + size * 0.36
        yield text(_short(float(cosine)), x, y, _on(cosine), "middle", font_size=size)


def _short(cosine: float) -> str:
    """Return a cosine in few characters: .99, −.02, 1.00."""
    return signed(f"{round(cosine, 2) + 0.0:.2f}".replace("0.", "."))


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
            **{"x": LEFT + column * cell + line, "y": TOP + row * cell + line, "width": side, "height": side},
            **{"rx": corner, "kind": f"pair {_on(cosine)}", "stroke_width": line},
        )


def _on(cosine: float) -> str:
    return "dark" if cosine >= BRIGHT else "light"


def _colour_bar(top: float) -> Iterator[Markup]:
    width = SIDE / LEVELS
    yield from (rect(LEFT + level * width, top, width + 0.5, 10, fill=_colour(level)) for level in range(LEVELS))
    ends = {"start": "0: independent", "middle": "0.5", "end": "1: the same"}
    for step, (anchor, label) in enumerate(ends.items()):
        yield text(label, LEFT + step * SIDE / 2, top + 25, anchor=anchor)


def _title(evidence: Evidence) -> str:
    (rows, columns), cosines = evidence.comparison.similarity.shape, evidence.comparison.by_layer
    return (
        f"Heat map: {rows} layers of the base against {columns} of the model; the {len(cosines)} pairs that are "
        f"outlined have cosines from {cosines.min():.3f} to {cosines.max():.3f}"
    )
