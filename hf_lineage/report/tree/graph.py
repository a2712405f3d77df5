"""A tree of models in the languages of Graphviz and of Mermaid."""

from __future__ import annotations

import re

from hf_lineage.errors import printable
from hf_lineage.index.tree import Tree
from hf_lineage.report.tree.rows import CLAIMS, COLOURS


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
    lines = [f'  {number}["{_entities(name)}"]' for name, number in numbers.items()]
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


def _entities(name: str) -> str:
    """A name in which nothing is left that Mermaid, Markdown or HTML reads as their own."""
    return re.sub(r"[^A-Za-z0-9 /_.-]", lambda character: f"#{ord(character[0])};", printable(name, 200))
