"""Alignment: which layer of a base each layer of a candidate comes from, where depths differ or layers repeat.

The score pairs layers one to one (equation 5). So a layer that was repeated leaves its copies without a partner, or
with a wrong one where both models have as many layers. The alignment says where every layer of the candidate comes
from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature import Vector

JUMP = 0.1
"""Least excess in similarity of another layer over the next one of the base: more than chance causes between two
layers, and far less than a descendant keeps."""


def in_order(similarity: Vector) -> NDArray[np.int64]:
    """Return for each layer of the candidate (M,) a layer of the base, from similarities (L, M), mostly in order.

    It maximises the sum of similarities less JUMP wherever the base's layer is not the one after that of the layer
    before (Viterbi 1967). Layers that the base itself repeats are alike to the last digit: only the order tells them.
    """
    layers, others = similarity.shape
    best, came_from = similarity[:, 0], np.zeros((others, layers), dtype=np.int64)
    for number in range(1, others):
        jump = int(best.argmax())
        follows = np.concatenate([[-np.inf], best[:-1]])
        follow = follows >= best[jump] - JUMP
        came_from[number] = np.where(follow, np.arange(layers) - 1, jump)
        best = np.where(follow, follows, best[jump] - JUMP) + similarity[:, number]
    partners = np.zeros(others, dtype=np.int64)
    partners[-1] = best.argmax()
    for number in range(others - 1, 0, -1):
        partners[number - 1] = came_from[number, partners[number]]
    return partners


@dataclass(frozen=True)
class Run:
    """Layers of a candidate that follow one another and come from layers of the base that do so too."""

    first: int
    """The number of the first of them in the candidate."""
    origin: int
    """The number of the layer of the base that this one comes from."""
    length: int

    def __str__(self) -> str:
        """Return the run in words: `layers 6-8 from layers 3-5`."""
        return f"{_numbered(self.first, self.length)} from {_numbered(self.origin, self.length)}"


def _numbered(first: int, length: int) -> str:
    return f"layer {first}" if length == 1 else f"layers {first}-{first + length - 1}"


def runs(origins: Mapping[int, int]) -> Iterator[Run]:
    """Yield the runs of a map from layers of a candidate to layers of a base, both by number.

    >>> [str(run) for run in runs({0: 0, 1: 1, 2: 4, 3: 5, 7: 6})]
    ['layers 0-1 from layers 0-1', 'layers 2-3 from layers 4-5', 'layer 7 from layer 6']
    """
    numbers = sorted(origins)
    starts = [number for number in numbers if origins.get(number - 1, -2) != origins[number] - 1]
    for start, end in zip(starts, [*starts[1:], np.inf], strict=False):
        yield Run(start, origins[start], sum(start <= number < end for number in numbers))


def moved(origins: Mapping[int, int]) -> bool:
    """Return whether any layer comes from one of another number."""
    return any(number != origin for number, origin in origins.items())
