"""Joining: distances that add up along a tree -> the tree, by neighbour joining (Saitou and Nei 1987).

The models are its leaves at first. An inner node that coincides with a model becomes that model; where two branches
share no more than siblings on the same data do, the node between them is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hf_lineage.evidence.derivation.differences import SIBLINGS
from hf_lineage.signature import Vector

Links = dict[int, dict[int, float]]
"""The length of every edge, by both of its nodes; a node from the number of models on is an unknown ancestor."""
COINCIDES = 0.4
"""If relatives come from a model, the cosines of their differences from it stay below this. Siblings that were trained
on the same data reach .3; three that are equally far from an unknown ancestor have .5."""


def joined(distances: Vector) -> Links:
    """Return the tree by neighbour joining of a matrix of distances (n, n); lengths below 0 are 0."""
    size = len(distances)
    links: Links = {node: {} for node in range(size)}
    table = np.zeros((2 * size, 2 * size))
    table[:size, :size] = distances
    active = list(range(size))
    while len(active) > 2:
        part = table[np.ix_(active, active)]
        first, second = _nearest(part)
        total, count, apart = part.sum(axis=1), len(active), part[first, second]
        length = min(max(apart / 2 + (total[first] - total[second]) / (2 * (count - 2)), 0.0), max(apart, 0.0))
        new = len(links)
        links[new] = {}
        _link(links, new, active[first], float(length))
        _link(links, new, active[second], float(apart - length))
        to_new = np.maximum((part[first] + part[second] - apart) / 2, 0.0)
        table[new, active] = table[active, new] = to_new
        active = [node for at, node in enumerate(active) if at not in (first, second)] + [new]
    if len(active) == 2:
        _link(links, active[0], active[1], float(table[active[0], active[1]]))
    return links


def simplified(links: Links, models: int, preferred: Sequence[int], barred: Sequence[bool]) -> Links:
    """Return the tree without the inner nodes that nothing supports, and with those that are a model as that model.

    Several nodes may take the place of an inner one: first the model that most others come from by their own claims,
    which are counted in `preferred`, then the one with most branches. `barred` are models that share with others a
    declared base that is not in the tree: such a model is not put in the place of it.
    """
    links = {node: dict(there) for node, there in links.items()}
    while candidates := list(_unsupported(links, models, barred)):
        _, node, inner = min(
            candidates,
            key=lambda one: (-preferred[one[1]], -len(links[one[1]]), one[0]) if one[1] < models else (0, 0, one[0]),
        )
        length = links[node].pop(inner)
        for other, further in links.pop(inner).items():
            if other != node:
                del links[other][inner]
                _link(links, node, other, length + further)
    return links


def _unsupported(links: Links, models: int, barred: Sequence[bool]) -> Iterator[tuple[float, int, int]]:
    """Yield inner nodes whose branches share no more than siblings do, as seen from the node in front."""
    for node, there in links.items():
        if node < models and barred[node]:
            continue
        for inner, length in there.items():
            if inner >= models:
                reach = sorted(further + nearest(links, other, inner, models)
                               for other, further in links[inner].items() if other != node)  # fmt: skip
                sizes = np.sqrt((length + reach[0]) * (length + reach[1]))
                cosine = length / sizes if sizes > 0 else 0.0
                if cosine < (COINCIDES if node < models else SIBLINGS):
                    yield float(cosine), node, inner


def nearest(links: Links, node: int, behind: int, models: int) -> float:
    """Return the distance from a node to the nearest model, away from the node `behind` it."""
    if node < models:
        return 0.0
    return min(length + nearest(links, other, node, models) for other, length in links[node].items() if other != behind)


def _nearest(part: Vector) -> tuple[int, int]:
    total = part.sum(axis=1)
    criterion = (len(part) - 2) * part - total[:, None] - total[None, :]
    np.fill_diagonal(criterion, np.inf)
    first, second = divmod(int(criterion.argmin()), len(part))
    return min(first, second), max(first, second)


def _link(links: Links, one: int, other: int, length: float) -> None:
    links[one][other] = links[other][one] = length
