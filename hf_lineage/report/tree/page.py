"""A tree of models as a picture in SVG, and as one self-contained page without scripts."""

from __future__ import annotations

from markupsafe import Markup

from hf_lineage.checking.results import moment, now
from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Tree
from hf_lineage.report.page import fill, identifier, word
from hf_lineage.report.tree.rows import CLAIMS, MEANING, TONES, Row, rows, tested
from hf_lineage.report.tree.svg import Node, picture


def svg(tree: Tree) -> str:
    """Return the picture as a file of its own."""
    return f"{drawn(tree)}\n"


def drawn(tree: Tree) -> Markup:
    """Return the picture of a tree: one row for each model, below the one that it comes from."""
    return picture(
        [_node(row, tree) for row in rows(tree)], f"Family tree of {len(tree.models)} models", _described(tree)
    )


def _node(row: Row, tree: Tree) -> Node:
    edges = [row.edge] if row.edge else []
    shown = {name for family in tree.families for name in family}
    above = [edge for edge in row.further if edge.mark not in CLAIMS and edge.parent in shown]
    several = f", from {1 + len(above)} models" if above else ""
    words = [f"{row.edge.mark.value}{several}"] if row.edge else []
    claims = [edge for edge in row.further if edge.mark in CLAIMS]
    words += [f"declares {edge.parent}: {edge.mark.value}" for edge in claims[:1]]
    tones = [TONES[edge.mark] for edge in (*edges, *above, *claims)]
    return Node(row.name, row.depth, "; ".join(words), tones[0] if len({*tones}) == 1 else "", (*edges, *above))


def _described(tree: Tree) -> str:
    described = (
        f"{printable(edge.child, 100)} from {printable(edge.parent, 100)}: {edge.mark.value}" for edge in tree.edges
    )
    return "; ".join(described) or "no two of them are related"


def html(tree: Tree) -> str:
    """Return the picture on a page of its own, with a table of its edges."""
    return fill(
        "tree/tree.html.j2",
        number=len(tree.models),
        moment=moment(now()),
        picture=drawn(tree),
        meaning_of_marks=MEANING,
        columns=("Model", "Comes from", "Shown by", "Declared", "Seen in the weights", "Length"),
        rows=map(_cells, tree.edges),
        tested=f"{tested(tree).replace('<=', '≤')}.",
    )


def _cells(edge: Edge) -> tuple[str, ...]:
    direction = "" if edge.directed or edge.mark in CLAIMS else ", direction not known"
    length = "-" if edge.length is None else f"{edge.length:.4f}"
    mark = word(f"{edge.mark.value}{direction}", TONES[edge.mark])
    return identifier(edge.child), identifier(edge.parent), mark, edge.relation or "-", edge.seen or "-", length
