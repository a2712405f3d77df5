"""A tree of models as text and as JSON, and the table of all its formats."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Tree
from hf_lineage.report.formats import WIDTH, wrapped
from hf_lineage.report.tree import graph as tree_graph
from hf_lineage.report.tree import page as tree_page
from hf_lineage.report.tree.rows import MEANING, about, besides, rows, tested
from hf_lineage.report.words import indented

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
    "dot": tree_graph.dot,
    "mermaid": tree_graph.mermaid,
    "svg": tree_page.svg,
    "html": tree_page.html,
}
"""Name, as in `--format NAME`, -> what writes a tree."""
