"""Rooting: which end of a tree came first, as far as anything tells: claims, and what cannot be undone to weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hf_lineage.evidence.derivation import Links

Arc = tuple[int, int]
"""A node from which another comes, and that other."""


def root_of(links: Links, arcs: Sequence[Arc], models: int) -> int:
    """Return the node from which most arcs lead away, then an unknown ancestor, then the one with most branches."""
    return max(
        links,
        key=lambda node: (
            sum(base in _path(links, node, child) for base, child in arcs),
            node >= models,
            len(links[node]),
            -node,
        ),
    )


def oriented(links: Links, root: int) -> Iterator[Arc]:
    """Yield every edge from the root on, children of one node by their distance."""
    yield from _below(links, root, None)


def _below(links: Links, node: int, parent: int | None) -> Iterator[Arc]:
    for child in sorted(links[node], key=lambda other: (links[node][other], other)):
        if child != parent:
            yield node, child
            yield from _below(links, child, node)


def crossed(links: Links, arcs: Sequence[Arc], edge: Arc) -> bool:
    """Return whether an arc leads along an edge in its direction, and none against it."""
    steps = [set(_steps(_path(links, *arc))) for arc in arcs]
    return any(edge in some for some in steps) and not any(edge[::-1] in some for some in steps)


def _steps(path: Sequence[int]) -> Iterator[Arc]:
    yield from pairwise(path)


def _path(links: Links, start: int, end: int) -> list[int]:
    """The nodes from one to another."""
    came: dict[int, int] = {start: start}
    reached = [start]
    for node in reached:
        for other in links[node]:
            if other not in came:
                came[other] = node
                reached.append(other)
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]
