"""The picture of a tree in SVG: a row for each model, and a line to it from each of those that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge
from hf_lineage.report.page import element, group, path, rect, shortened, svg, text
from hf_lineage.report.tree.rows import CLAIMS, COLOURS, TONES

WIDTH, LINE, STEP, LEFT, TOP = 340, 42, 16, 14, 22
"""The picture as wide as a phone shows it, a row, a step to the right, and where the first row begins."""
BESIDE, BEND = 7, 10
"""How far to the left a line passes the nodes that it does not lead to, and how early it turns to the one it does."""
DEEPEST = 8
LETTERS = 37
"""Letters that fit a row at its left edge; a step takes two of them."""
NAME, BELOW = 14, 12
"""Sizes of a name and of the text below it."""
INK, MUTED, PAPER = "#1c2128", "#545d68", "#ffffff"
FONT = "system-ui, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"


@dataclass(frozen=True)
class Node:
    """One model of a picture."""

    name: str
    depth: int
    """Steps to the right."""
    words: str = ""
    """The text below its name."""
    tone: str = ""
    """How that is shown."""
    edges: tuple[Edge, ...] = ()
    """From nodes of the picture to this one, the one that it stands below first."""
    strong: bool = False
    """Whether it is the model that everything is about."""


def picture(nodes: Sequence[Node], title: str, described: str) -> Markup:
    """Return some models, each below those that it comes from; `described` says in words what the lines show."""
    height = TOP + LINE * len(nodes) - LINE // 3
    places = {node.name: (LEFT + STEP * min(node.depth, DEEPEST), TOP + LINE * at) for at, node in enumerate(nodes)}
    parts = (
        rect(0, 0, WIDTH, height, "paper", fill=PAPER),
        *(line for node in reversed(nodes) for line in _lines(node, places)),
        *(group(*_shown(node, places[node.name])) for node in nodes),
    )
    return svg.picture("tree", (WIDTH, height), parts, title, "tree", described, font_family=FONT)


def _lines(node: Node, places: Mapping[str, tuple[float, float]]) -> Iterator[Markup]:
    """A line from every node that this one comes from; the nearest lies upon the others, and shows its tone."""
    end = places[node.name]
    for edge in sorted(node.edges, key=lambda edge: -abs(places[edge.parent][1] - end[1])):
        start = places[edge.parent]
        passed = [place for place in places.values() if min(start[1], end[1]) < place[1] < max(start[1], end[1])]
        free = start[0] < end[0] and all(place[0] != start[0] for place in passed)
        yield _line(edge, (_elbow if free else _bypass)(start, end))


def _elbow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Straight down, or up, and to the right."""
    (x, top), (right, y) = start, end
    turn = y - BEND if top < y else y + BEND
    return f"M{x} {top}V{turn}Q{x} {y} {x + BEND} {y}H{right}"


def _bypass(start: tuple[float, float], end: tuple[float, float]) -> str:
    """On the left of the nodes in between."""
    (x, top), (right, y) = start, end
    lane, bend = min(x, right) - BESIDE, BEND if top < y else -BEND
    return f"M{x} {top}Q{lane} {top} {lane} {top + bend}V{y - bend}Q{lane} {y} {right} {y}"


def _line(edge: Edge, line: str) -> Markup:
    dashes = "4 3" if edge.mark in CLAIMS else None
    kind, colour = f"edge {TONES[edge.mark]}", COLOURS[edge.mark]
    return path(line, kind, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dashes)


def _shown(node: Node, place: tuple[float, float]) -> Iterator[Markup]:
    (x, y), kind = place, "strong" if node.strong else ""
    room = LETTERS - 2 * min(node.depth, DEEPEST)
    yield element("title", ": ".join(filter(None, (printable(node.name, 200), printable(node.words, 200)))))
    yield element("circle", cx=x, cy=y, r=6 if node.strong else 4.5, fill=INK, kind="node")
    name = shortened(node.name, room - 2 * node.strong)
    yield text(name, x + 11, y + 5, kind, font_size=NAME, fill=INK, font_weight=650 if node.strong else None)
    if node.words:
        below, tone = shortened(node.words, room + 7), f"tick {node.tone}".strip()
        yield text(below, x + 11, y + 20, tone, font_size=BELOW, fill=MUTED)
