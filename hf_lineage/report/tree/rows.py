"""Rows of a tree: every model once, below the one it comes from, with a text about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hf_lineage.errors import printable
from hf_lineage.index.tree import Edge, Mark, Tree

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
"""By mark, the tone in which it is shown."""
COLOURS = {
    mark: {"good": "#12642c", "part": "#6b4a00", "open": "#404a57", "bad": "#a3122a"}[TONES[mark]] for mark in Mark
}
"""By mark, its colour where there is no style sheet."""
CLAIMS = (Mark.DECLARED, Mark.NOT_JUDGED, Mark.NO_TRACE, Mark.CONTRADICTED)
"""Marks of edges that no weights bear out, which are no part of a tree and drawn in dashes."""
MEANING = (
    "Verified: declared, and the exact test confirms it. Measured only: the weights show it, but no model declares "
    "it. Only claims, quantization and pruning tell which model came first; otherwise the direction is not known. An "
    "unknown common ancestor is a model that was not given."
)


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
        if not (any(_above(tree, family[0])) or family[0] in placed):
            yield from _below(tree, family[0], 0, None, placed)
    for family in tree.families:
        for name in family:
            if name not in placed:
                yield from _below(tree, name, 0, None, placed)


def _above(tree: Tree, name: str) -> Iterator[Edge]:
    yield from (edge for edge in tree.edges if edge.child == name and edge.mark not in CLAIMS)


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
