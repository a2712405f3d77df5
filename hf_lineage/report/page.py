"""Pages and pictures from templates. No page loads anything, runs scripts, or tells another site of itself."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.evidence.permutation import PermutationNull
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.options import in_words, stamp
from hf_lineage.report import verdicts, wording

if TYPE_CHECKING:
    from jinja2 import Environment


LONGEST = 500  # characters of a name that are shown; the Hub allows 96 on either side of the slash
SIGNS = {  # tick, wave, cross and question mark on 24 by 24
    "good": "M5 12.5l4.5 4.5L19 7.5",
    "part": "M5.5 13.5c2-3.6 4.4-3.6 6.5-1.5s4.5 2.1 6.5-1.5",
    "bad": "M7 7l10 10M17 7L7 17",
    "open": "M9 9.2a3.1 3.1 0 1 1 4.6 2.7c-1 .6-1.6 1.2-1.6 2.4M12 17.6v.01",
}


def fill(template: str, **values: object) -> Markup:
    """Return what a template makes of values; it is named as in `tree.html.j2`, from the folder of reports."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - the engine escapes the values


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(Path(__file__).parent)
    made = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, finalize=escape_value, auto_reload=False
    )
    made.trim_blocks = made.lstrip_blocks = made.keep_trailing_newline = True
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    made.globals |= FRAME | {"style": Markup(style), "digest": digest}  # noqa: S704 - our own file
    made.globals |= {"version": __version__, "texts": verdicts.texts(), "SIGNS": SIGNS, "meaning": wording.MEANING}
    made.globals |= {"stamp": stamp, "in_words": in_words, "word": word, "LAYER_COLUMNS": verdicts.LAYER_COLUMNS}
    made.filters |= {"identifier": identifier, "whole": wording.whole, "name": printable}
    made.filters["signed"] = lambda number: number.replace("-", "−")  # a real minus sign
    return made


def escape_value(value: object) -> object:
    r"""Return a value as it is shown: markup as it is, of all else the text, with control characters escaped.

    >>> escape_value(1 / 3), escape_value(chr(0x202E)), escape_markup("<a>")
    ('0.333333', '\\u202e', Markup('&lt;a&gt;'))
    """
    if isinstance(value, Markup):
        return value
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return printable(text, len(r"\U0010ffff") * len(text))


def escape_markup(value: object) -> Markup:
    """Return a value as text that cannot leave its place."""
    return escape(escape_value(value))


def identifier(name: str) -> Markup:
    """Return an untrusted name, set apart: it may wrap anywhere, and turns no text around it."""
    return Markup('<bdi class="id">{}</bdi>').format(printable(name, LONGEST))


def word(words: str, tone: str) -> Markup:
    """Return the words of a verdict in the colour of its tone."""
    return Markup('<span class="word {}">{}</span>').format(tone, escape_markup(words))


def draw(macro: str, **values: object) -> Markup:
    """Return the picture that a macro of `charts.svg.j2` draws of values, on one line."""
    drawn = getattr(_environment().get_template("charts.svg.j2").module, macro)(**values)
    return Markup("".join(line.strip() for line in drawn.split("\n")))  # noqa: S704 - the engine escapes the values


FRAME = {
    **{"WIDTH": 360, "LEFT": 44, "RIGHT": 348, "TOP": 26, "BOTTOM": 150},
    **{"BAR": 200, "THICK": 14, "TIP": 5},
    **{"SIDE": 304, "MAP_LEFT": 48, "MAP_TOP": 6},
}
"""The frame of a chart, below which are ticks and the name of the axis; the size of a small bar beside a number, and
half the width of the mark of a score; the longer side of the map, and where it begins."""
WIDTH, LEFT, RIGHT, TOP, BOTTOM, BAR, THICK, TIP, SIDE, MAP_LEFT, MAP_TOP = FRAME.values()
THIN = 3.0  # pixels that the range of independent models takes at least, to be seen
FAR = 0.72  # share of the width for the null's axis, if the score lies so far off that it is broken


def _on_bar(value: float) -> float:
    return BAR * min(max(value, 0.0), 1.0)


def interval_bar(
    label: str, share: float | None, interval: tuple[float, float], line: str = "gap", fill: str = "share"
) -> Markup:
    """Return a bar from nothing to a share of the whole, and the interval that holds it; no bar where it is None."""
    low, high = map(_on_bar, interval)
    ends = (low, max(high, low + 0.5)) if interval[0] < interval[1] else None
    width = None if share is None else _on_bar(share)
    return draw("interval_bar", label=label, width=width, ends=ends, kind=line, fill=fill)


def share_bar(share: float, interval: tuple[float, float]) -> Markup:
    """Return the bar of what is inherited, with the interval where it has any width."""
    low, high = (f"{end:.0%}" for end in interval)
    between = "" if low == high else f", between {low} and {high}"
    return interval_bar(f"{share:.0%} inherited{between}", share, interval if between else (share, share))


def score_bar(null: PermutationNull) -> Markup:
    """Return a scale from 0 to 1 with the range of independent models on it, and the score of this pair."""
    low, high = null.range
    start, end, score = map(_on_bar, (low, high, null.observed))
    label = f"On a scale from 0 to 1: independent models score {low:.3f} to {high:.3f}, this pair {null.observed:.3f}"
    at, x = min(max(score, TIP), BAR - TIP), min(start, BAR - THIN)
    return draw("score_bar", label=label, x=x, width=max(end - start, THIN), at=at)


def _place(value: float, axis: tuple[float, float], stop: float, start: float = LEFT) -> float:
    low, high = axis
    return start + (value - low) / ((high - low) or 1) * (stop - start)


def histogram(null: PermutationNull, name: str) -> Markup:
    """Return how often the permutations reached which score, and where the observed score lies."""
    least, largest = float(null.scores.min()), float(null.scores.max())
    margin = max((largest - least) * 0.08, 1e-4)
    low, high = least - margin, largest + margin
    reach = (min(low, null.observed), max(high, null.observed))
    # The axis reaches for the score, unless that takes half as much again as the null's own range: then it is broken.
    broken = reach[1] - reach[0] > 1.5 * (high - low)
    axis, stop = ((low, high), LEFT + FAR * (RIGHT - LEFT)) if broken else (reach, RIGHT)
    at = LEFT + 0.9 * (RIGHT - LEFT) if broken else _place(null.observed, axis, stop)
    counts, edges = np.histogram(null.scores, 24, (low, high))
    most, ends = int(counts.max()), [_place(edge, axis, stop) for edge in edges.tolist()]
    tops = [_place(count, (0, most), TOP + 14, BOTTOM) for count in counts.tolist()]
    return draw(
        "histogram",
        title=f"Histogram: {len(null.scores)} permutations reach {least:.4f} to {largest:.4f}; "
        f"the observed score is {null.observed:.4f}",
        name=name,
        bars=[
            (left, top, max(right - left - 0.6, 0.5))
            for top, left, right in zip(tops, ends[:-1], ends[1:], strict=True)
            if top < BOTTOM
        ],
        most=most,
        top=_place(most, (0, most), TOP + 14, BOTTOM),
        ticks=[(_place(step, axis, stop), f"{step:g}") for step in round_steps(*axis, 4)],
        gap=LEFT + (FAR + 0.05) * (RIGHT - LEFT) if broken else None,
        at=at,
        anchor="end" if at > RIGHT - 40 else "start" if at < LEFT + 40 else "middle",
        score=f"{null.observed:.3f}",
    )


def round_steps(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from low to high, at most so many and one."""
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * 0.999)
    return [round(step * index, 12) + 0.0 for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def inheritance(evidence: Evidence, layers: int | None, name: str) -> Markup:
    """Return the inherited share of every layer of the model that was read, among all its layers."""
    shares = [float(share) for share in evidence.inherited.by_layer] if evidence.inherited else []
    most = max(*evidence.layers[1], (layers or 0) - 1)
    wide = (RIGHT - LEFT) / (most + 1)
    title = (  # from a half on a layer comes from the base
        f"Column chart of the share that each layer inherits: {len(shares)} layers, from {min(shares, default=0):.0%} "
        f"to {max(shares, default=0):.0%}; {sum(share > 0.5 for share in shares)} of them come from the base"
    )
    return draw(
        "inheritance",
        title=title,
        name=name,
        columns=[
            (LEFT + (layer + 0.12) * wide, _place(share, (0, 1), TOP + 2, BOTTOM), "" if share > 0.5 else " pale")
            for layer, share in zip(evidence.layers[1], shares, strict=True)
        ],
        width=0.76 * wide,
        steps=[(_place(step, (0, 1), TOP + 2, BOTTOM), f"{step:.0%}") for step in (0, 0.5, 1)],
        ticks=[(LEFT + (at + 0.5) * wide, str(at)) for at in range(0, most + 1, every((most + 1) / 8))],
    )


def every(apart: float) -> int:
    """Return which numbers of layers are written where one takes the room of so many: every, every second, fourth."""
    return next(1 << power for power in range(32) if 1 << power >= apart)


VIRIDIS = (  # equal steps of a cosine from 0 to 1 as equal steps to the eye (viridis by Smith and van der Walt, CC0)
    *("#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c"),
    *("#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"),
)
LEVELS = 33  # the number of colours; cells of one colour are one shape, so that 128 layers stay a small file


def heat_map(evidence: Evidence, name: str) -> Markup:
    """Return the picture; `name` is unique on its page."""
    similarity, cosines = evidence.comparison.similarity, evidence.comparison.by_layer
    rows, columns = similarity.shape
    cell = SIDE / max(rows, columns)
    base, candidate = (
        [((index + 0.5) * cell, str(layers[index])) for index in range(0, len(layers), every(room / cell))]
        for layers, room in zip(evidence.layers, (14, 24), strict=True)  # pixels that a number takes
    )
    line, size = max(0.6, min(2.5, cell * 0.09)), min(13.0, cell * 0.38)
    return draw(
        "heat_map",
        title=f"Heat map: {rows} layers of the base against {columns} of the model; the {len(cosines)} pairs that are "
        f"outlined have cosines from {cosines.min():.3f} to {cosines.max():.3f}",
        name=name,
        side="layer of the base" if rows * cell > 100 else "base",
        wide=columns * cell,
        high=rows * cell,
        scale=cell,
        cells=_cells(similarity),
        numbers=_numbers(similarity, cell, size) if max(rows, columns) <= 12 else (),
        size=size,
        rows=[(MAP_TOP + at, number) for at, number in base],
        columns=[(MAP_LEFT + at, number) for at, number in candidate],
        pairs=_pairs(evidence, cell, line),
        pair={"side": cell - 2 * line, "corner": min(3.0, cell * 0.1), "line": line},
        colours=list(map(_colour, range(LEVELS))),
    )


def _colour(level: int) -> str:
    """Return the colour of a level: that of the scale, or half-way between two of its colours."""
    step = level * (len(VIRIDIS) - 1) / (LEVELS - 1)
    low, high = (bytes.fromhex(VIRIDIS[int(end)][1:]) for end in (np.floor(step), np.ceil(step)))
    return "#" + bytes((a + b) // 2 for a, b in zip(low, high, strict=True)).hex()


def _cells(similarity: NDArray[np.float64]) -> list[tuple[str, str]]:
    """Return all cells, those of one colour as one shape in units of a cell, with that colour."""
    shapes: dict[int, list[str]] = {}
    for row, line in enumerate(np.rint(np.clip(similarity, 0, 1) * (LEVELS - 1)).astype(np.int64)):
        column = 0
        for level, run in groupby(line):
            length = sum(1 for _ in run)
            shapes.setdefault(int(level), []).append(f"M{column} {row}h{length}v1h-{length}z")
            column += length
    return [("".join(shapes[level]), _colour(level)) for level in sorted(shapes)]


def _numbers(similarity: NDArray[np.float64], cell: float, size: float) -> Iterator[tuple[str, float, float, str]]:
    for (row, column), cosine in np.ndenumerate(similarity):
        x, y = MAP_LEFT + (column + 0.5) * cell, MAP_TOP + (row + 0.5) * cell + size * 0.36
        yield f"{round(float(cosine), 2) + 0.0:.2f}".replace("0.", "."), x, y, _on(cosine)


def _pairs(evidence: Evidence, cell: float, line: float) -> Iterator[tuple[str, float, float, str]]:
    """Yield an outline around every paired cell, which says what it is where a pointer rests on it."""
    (base, candidate), comparison = evidence.layers, evidence.comparison
    for row, column in zip(*comparison.pairs, strict=True):
        cosine = float(comparison.similarity[row, column])
        label = f"layer {base[row]} of the base, layer {candidate[column]} of the model: {cosine:.3f}"
        yield label, MAP_LEFT + column * cell + line, MAP_TOP + row * cell + line, _on(cosine)


def _on(cosine: float) -> str:
    """Return in which colour something shows on a cell: from .42 on it is so bright that black shows better."""
    return "dark" if cosine >= 0.42 else "light"
