"""Rows of a tree: every model once, below the one it comes from, with what is said of it; and their picture in SVG.

In the picture a line goes to a row from each of those that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Mark, Tree
from hf_lineage.report.page import element, group, path, rect, shortened, svg, text
from hf_lineage.report.words import sentences

TONES = {
    Mark.VERIFIED: "good",
    Mark.IN_PART: "part",
    Mark.WEAKER: "part",
    Mark.MEASURED: "open",
    Mark.DECLARED: "open",
    Mark.NOT_JUDGED: "open",
    Mark.NO_TRACE: "bad",
    Mark.CONTRADICTED: "bad",
}
"""Mark -> the tone in which it is shown."""
_OF_TONE = {"good": "#12642c", "part": "#6b4a00", "open": "#404a57", "bad": "#a3122a"}
COLOURS = {mark: _OF_TONE[tone] for mark, tone in TONES.items()}
"""Mark -> its colour where there is no style sheet."""
CLAIMS = (Mark.DECLARED, Mark.NOT_JUDGED, Mark.NO_TRACE, Mark.CONTRADICTED)
"""Marks of edges that no weights bear out, which are no part of a tree and drawn in dashes."""
MEANING = sentences("tree")["meaning"]


@dataclass(frozen=True)
class Row:
    """One model, or an unknown ancestor."""

    name: str
    depth: int
    edge: Edge | None
    """To the node above it; None for a root."""
    further: tuple[Edge, ...] = ()
    """To others: the further parents of a merge, and what is declared and not borne out."""


def rows(tree: Tree) -> Iterator[Row]:
    """Yield the nodes of every family, each after the node above it; families of several models come first."""
    placed = set[str]()
    for family in sorted(tree.families, key=lambda nodes: -len(nodes)):
        above = (edge for edge in tree.edges if edge.child == family[0] and edge.mark not in CLAIMS)
        if not (any(above) or family[0] in placed):
            yield from _below(tree, family[0], 0, None, placed)
    for family in tree.families:
        for name in family:
            if name not in placed:
                yield from _below(tree, name, 0, None, placed)


def _below(tree: Tree, name: str, depth: int, edge: Edge | None, placed: set[str]) -> Iterator[Row]:
    if name in placed:
        return
    placed.add(name)
    yield Row(name, depth, edge, tuple(one for one in tree.edges if one.child == name and one is not edge))
    for one in tree.edges:
        if one.parent == name and one.mark not in CLAIMS:
            yield from _below(tree, one.child, depth + 1, one, placed)


def about(edge: Edge) -> str:
    """Return what an edge rests on, in words."""
    parts = [edge.mark.value]
    if edge.mark not in CLAIMS and not edge.directed:
        parts.append("direction not known")
    if edge.relation:
        parts.append(f"declared: {printable(edge.relation, 40)}")
    if edge.seen:
        parts.append(f"seen: {edge.seen}")
    if edge.length is not None:
        parts.append(f"length {edge.length:.4f}")
    return ", ".join(parts)


def besides(edge: Edge) -> str:
    """Return what a further edge of a model says, in words that follow its name."""
    base = printable(edge.parent, 200)
    return f"declares {base}: {edge.mark.value}" if edge.mark in CLAIMS else f"also from {base}: {about(edge)}"


def tested(tree: Tree) -> str:
    """Return what p means, given how many pairs there are."""
    return (
        f"{len(tree.models)} models, {tree.pairs} pairs, path {tree.path}: two are of one family at p <= "
        f"{tree.alpha:g} of their own pair, uncorrected, if more than half is inherited too. By p alone "
        f"{tree.pairs * tree.alpha:.2g} of as many independent pairs would be called related"
    )


WIDTH, LINE, STEP, LEFT, TOP = 340, 42, 16, 14, 22
"""The picture as wide as a phone shows it, a row, a step to the right, and where the first row begins."""
BESIDE, BEND = 7, 10
"""Distance to the left at which a line passes other nodes than its own, and how early it turns to its own."""
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
    """Tone in which that is shown."""
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
    """Yield a line from every node that this one comes from; the nearest lies upon the others, and shows its tone."""
    end = places[node.name]
    for edge in sorted(node.edges, key=lambda edge: -abs(places[edge.parent][1] - end[1])):
        start = places[edge.parent]
        passed = [place for place in places.values() if min(start[1], end[1]) < place[1] < max(start[1], end[1])]
        free = start[0] < end[0] and all(place[0] != start[0] for place in passed)
        yield _line(edge, (_elbow if free else _bypass)(start, end))


def _elbow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a path straight down, or up, and to the right."""
    (x, top), (right, y) = start, end
    turn = y - BEND if top < y else y + BEND
    return f"M{x} {top}V{turn}Q{x} {y} {x + BEND} {y}H{right}"


def _bypass(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a path on the left of the nodes in between."""
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
