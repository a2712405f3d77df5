"""A tree of models as text, as JSON, in the languages of Graphviz and of Mermaid, as a picture in SVG, and as a page.

The page is self-contained and without scripts. The table of all formats stands at the end.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from hf_lineage.checking.results import moment, now
from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Tree
from hf_lineage.report.formats import WIDTH, wrapped
from hf_lineage.report.page import fill, identifier, word
from hf_lineage.report.tree.rows import (
    CLAIMS,
    COLOURS,
    MEANING,
    TONES,
    Node,
    Row,
    about,
    besides,
    picture,
    rows,
    tested,
)
from hf_lineage.report.words import indented


def dot(tree: Tree) -> str:
    """Return the tree for Graphviz."""
    lines = [f"  {_quoted(name)};" for name in _nodes(tree)]
    for edge in tree.edges:
        values = {"label": edge.mark.value, "color": COLOURS[edge.mark]}
        values |= {} if edge.directed else {"dir": "none"}
        values |= {"style": "dashed", "constraint": "false"} if edge.mark in CLAIMS else {}
        shown = ", ".join(f"{key}={_quoted(value)}" for key, value in values.items())
        lines.append(f"  {_quoted(edge.parent)} -> {_quoted(edge.child)} [{shown}];")
    return "\n".join(["digraph lineage {", "  rankdir=LR;", "  node [shape=box];", *lines, "}"]) + "\n"


def mermaid(tree: Tree) -> str:
    """Return the tree for Mermaid, as a card on the Hub or a page of GitHub shows it."""
    numbers = {name: f"n{number}" for number, name in enumerate(_nodes(tree))}
    # Entities leave nothing in a name that Mermaid, Markdown or HTML reads as its own.
    safe = [re.sub(r"[^A-Za-z0-9 /_.-]", lambda it: f"#{ord(it[0])};", printable(name, 200)) for name in numbers]
    lines = [f'  {number}["{name}"]' for name, number in zip(safe, numbers.values(), strict=True)]
    for edge in tree.edges:
        arrow = "-.->" if edge.mark in CLAIMS else "-->" if edge.directed else "---"
        lines.append(f'  {numbers[edge.parent]} {arrow}|"{edge.mark.value}"| {numbers[edge.child]}')
    return "\n".join(["flowchart LR", *lines]) + "\n"


def _nodes(tree: Tree) -> list[str]:
    named = [name for family in tree.families for name in family]
    return list(dict.fromkeys([*named, *(edge.parent for edge in tree.edges)]))


def _quoted(name: str) -> str:
    safe = printable(name, 200).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"'


def svg(tree: Tree) -> str:
    """Return the picture as a file of its own."""
    return f"{drawn(tree)}\n"


def drawn(tree: Tree) -> Markup:
    """Return the picture of a tree: one row for each model, below the one that it comes from."""
    title = f"Family tree of {len(tree.models)} models"
    return picture([_node(row, tree) for row in rows(tree)], title, _described(tree))


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
    told = (f"{printable(one.child, 100)} from {printable(one.parent, 100)}: {one.mark.value}" for one in tree.edges)
    return "; ".join(told) or "no two of them are related"


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


SCHEMA_VERSION = 1
DEEPEST = 10
"""Steps to the right; deeper models stand no further right."""


def text(tree: Tree) -> str:
    """Return the tree as indented names, no line over 80 columns."""
    lines = []
    for row in rows(tree):
        start = "  " * min(row.depth, DEEPEST)
        lines += _folded(start, printable(row.name, 200))
        sentences = ([about(row.edge)] if row.edge else []) + [besides(edge) for edge in row.further]
        for sentence in sentences:
            lines += _folded(f"{start}    ", sentence)
    return "\n".join([*lines, "", wrapped(tested(tree)), wrapped(MEANING)]) + "\n"


def _folded(start: str, words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=start, subsequent_indent=f"{start}  ", break_on_hyphens=False)


def json(tree: Tree) -> str:
    """Return the same as JSON."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "path": tree.path,
        "models": [printable(name, 200) for name in tree.models],
        "families": [[printable(name, 200) for name in family] for family in tree.families],
        "edges": [_values(edge) for edge in tree.edges],
        "pairs": tree.pairs,
        "alpha": tree.alpha,
    }
    return indented(document)


def _values(edge: Edge) -> dict[str, Any]:
    return {
        "parent": printable(edge.parent, 200),
        "child": printable(edge.child, 200),
        "mark": edge.mark.name.lower(),
        "directed": edge.directed,
        "length": edge.length,
        "relation": printable(edge.relation, 40) or None,
        "relation_seen": edge.seen or None,
    }


FORMATS: Mapping[str, Callable[[Tree], str]] = {
    "text": text,
    "json": json,
    "dot": dot,
    "mermaid": mermaid,
    "svg": svg,
    "html": html,
}
"""Name, as in `--format NAME`, -> what writes a tree."""
