"""A tree of models as a picture in SVG, and as one self-contained page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Tree
from hf_lineage.report.markup import Markup, identifier, tag
from hf_lineage.report.page import document, table
from hf_lineage.report.tree_graph import COLOURS, DOTTED
from hf_lineage.report.tree_rows import CLAIMS, MEANING, TONES, Row, rows, tested

WIDTH, LINE, STEP, LEFT, TOP = 380, 40, 18, 14, 22
"""The picture as wide as a phone shows it, a row, a step to the right, and where the first row begins."""
DEEPEST = 8
LETTERS = 52
"""Letters that fit a row at its left edge; a step takes two and a half of them."""
INK, MUTED, PAPER = "#1c2128", "#545d68", "#ffffff"
COLUMNS = ("Model", "Comes from", "Shown by", "Declared", "Seen in the weights", "Length")


def svg(tree: Tree) -> str:
    """Return the picture as a file of its own."""
    return f"{picture(tree)}\n"


def picture(tree: Tree) -> Markup:
    """Return the tree: one row for each model, below the one that it comes from."""
    drawn = list(rows(tree))
    height = TOP + LINE * len(drawn)
    places = {row.name: (LEFT + STEP * min(row.depth, DEEPEST), TOP + LINE * at) for at, row in enumerate(drawn)}
    title = f"Family tree of {len(tree.models)} models"
    lines = [line for row in drawn for line in _edges(row, places)]
    return tag(
        "svg",
        tag("title", title, id="tree-title"),
        tag("desc", _described(tree), id="tree-desc"),
        tag("rect", width=WIDTH, height=height, fill=PAPER, class_="paper"),
        *lines,
        *(tag("g", *_node(row, places[row.name])) for row in drawn),
        **{"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {height}", "role": "img"},
        aria_labelledby="tree-title tree-desc", class_="tree",
        font_family="system-ui, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif",
    )  # fmt: skip


def _described(tree: Tree) -> str:
    described = (
        f"{printable(edge.child, 100)} from {printable(edge.parent, 100)}: {edge.mark.value}" for edge in tree.edges
    )
    return "; ".join(described) or "no two of them are related"


def _edges(row: Row, places: Mapping[str, tuple[float, float]]) -> Iterator[Markup]:
    """An elbow from the node above, and a curve from every other parent."""
    x, y = places[row.name]
    if row.edge is not None:
        above = places[row.edge.parent]
        yield _line(row.edge, f"M{above[0]} {above[1]}V{y}H{x}")
    for edge in row.further:
        if edge.parent in places and edge.mark not in CLAIMS:
            at = places[edge.parent]
            bend = STEP if at[1] > y else -STEP
            yield _line(edge, f"M{at[0]} {at[1]}C{x} {at[1]} {x} {at[1]} {x} {y + bend}V{y}")


def _line(edge: Edge, path: str) -> Markup:
    dashes = "4 3" if edge.mark in DOTTED else None
    return tag("path", d=path, fill="none", stroke=COLOURS[edge.mark], stroke_width=1.5, stroke_dasharray=dashes,
               class_=f"edge {TONES[edge.mark]}")  # fmt: skip


def _node(row: Row, place: tuple[float, float]) -> Iterator[Markup]:
    x, y = place
    room = LETTERS - round(2.5 * min(row.depth, DEEPEST))
    yield tag("title", printable(row.name, 200))
    yield tag("circle", cx=x, cy=y, r=4.5, fill=INK, class_="node")
    yield tag("text", _short(row.name, room), x=x + 10, y=y + 4, font_size=12, fill=INK)
    words = [(row.edge.mark.value, TONES[row.edge.mark])] if row.edge else []
    words += [(f"declares {edge.parent}: {edge.mark.value}" if edge.mark in CLAIMS
               else f"also from {edge.parent}: {edge.mark.value}", TONES[edge.mark])
              for edge in row.further[:1]]  # fmt: skip
    if words:
        shown = _short("; ".join(word for word, _ in words), room + 8)
        yield tag("text", shown, x=x + 10, y=y + 18, font_size=11, fill=MUTED, class_="tick")


def _short(name: str, room: int) -> str:
    shown = printable(name, 200)
    return shown if len(shown) <= room else f"{shown[: room - 1]}…"


def html(tree: Tree) -> str:
    """Return the picture on a page of its own, with a table of its edges."""
    header = tag("header", tag("p", "Lineage", class_="eyebrow"), tag("h1", f"{len(tree.models)} models"))
    main = tag(
        "main",
        tag("section", tag("h2", "Family tree"), tag("figure", picture(tree), tag("figcaption", MEANING))),
        tag("section", tag("h2", "Every edge"), table(COLUMNS, map(_cells, tree.edges), "edges of the tree", "narrow")),
        tag("section", tag("h2", "How it was found"), tag("p", f"{tested(tree)}.")),
    )
    footer = tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights and the declared claims."))
    return document(f"Family tree of {len(tree.models)} models", header, main, footer)


def _cells(edge: Edge) -> tuple[object, ...]:
    direction = "" if edge.directed or edge.mark in CLAIMS else ", direction not known"
    length = "-" if edge.length is None else f"{edge.length:.4f}"
    mark = tag("span", f"{edge.mark.value}{direction}", class_=f"word {TONES[edge.mark]}")
    return identifier(edge.child), identifier(edge.parent), mark, edge.relation or "-", edge.seen or "-", length
