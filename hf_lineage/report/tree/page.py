"""A tree of models as a picture in SVG, and as one self-contained page without scripts."""

from __future__ import annotations

from hf_lineage import __version__
from hf_lineage.checking.results import moment, now
from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Tree
from hf_lineage.report.page import CARDS, Markup, document, identifier, table, tag, time_of
from hf_lineage.report.tree.rows import CLAIMS, MEANING, TONES, Row, rows, tested
from hf_lineage.report.tree.svg import Node, picture

COLUMNS = ("Model", "Comes from", "Shown by", "Declared", "Seen in the weights", "Length")


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
    header = tag(
        "header",
        tag("p", "Family tree", class_="eyebrow"),
        tag("h1", f"{len(tree.models)} models"),
        tag("p", "Drawn on ", time_of(moment(now())), class_="commit"),
    )
    figure = tag("figure", drawn(tree), tag("figcaption", MEANING), class_="whole-tree")
    lines = table(COLUMNS, map(_cells, tree.edges), "lines of the tree", CARDS)
    main = tag(
        "main",
        tag("section", tag("h2", "Who comes from whom"), figure),
        tag("section", tag("h2", "Every line in words"), lines),
        tag("section", tag("h2", "How it was found"), tag("p", f"{tested(tree).replace('<=', '≤')}.")),
    )
    footer = tag("footer", tag("p", f"Made by hf-lineage {__version__} from the weights and the declared claims."))
    return document(f"Family tree of {len(tree.models)} models", header, main, footer)


def _cells(edge: Edge) -> tuple[object, ...]:
    direction = "" if edge.directed or edge.mark in CLAIMS else ", direction not known"
    length = "-" if edge.length is None else f"{edge.length:.4f}"
    mark = tag("span", f"{edge.mark.value}{direction}", class_=f"word {TONES[edge.mark]}")
    return identifier(edge.child), identifier(edge.parent), mark, edge.relation or "-", edge.seen or "-", length
