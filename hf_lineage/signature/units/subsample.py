"""Subsample: the hidden units of a layer with experts that are kept in memory; it may have half a million of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import LayerSet
from hf_lineage.signature.recipe import Vector, random_stream

MOST_KEPT = 2**20
"""The most units that are kept of all layers of a model with experts; in 256 coordinates they take 2 GiB."""
SMALLEST = 8
"""The size in units that an expert exceeds; no layer is divided into smaller parts."""

Numbers = NDArray[np.int64]
Keep = Callable[[Sequence[Vector]], list[Numbers]]
"""Rule from the weights of the units of each expert of a layer to the numbers of the units that are kept, ascending."""


def everything(experts: Sequence[Vector]) -> list[Numbers]:
    """Keep all units."""
    return [np.arange(len(weight)) for weight in experts]


def in_the_same_places(most: int, seed: int) -> Keep:
    """Return a rule that keeps about `most` units of a layer, at the same places in all experts of one size.

    A layer without experts is kept whole, as all layers of a dense model are. Units that are kept with a small `most`
    are also kept with a larger one. So models of unlike size can be compared.
    """

    def keep(experts: Sequence[Vector]) -> list[Numbers]:
        total = sum(map(len, experts))
        if len(experts) == 1 or total <= most:
            return everything(experts)
        return [_drawn(len(weight), max(len(weight) * most // total, 1), seed) for weight in experts]

    return keep


def _drawn(size: int, count: int, seed: int) -> Numbers:
    order = np.argsort(random_stream(f"units of experts {seed} {size}").random_raw(size), kind="stable")
    return np.sort(order[:count])


def heaviest(most: int) -> Keep:
    """Return a rule that keeps the units of a layer that write most, whatever their order."""

    def keep(experts: Sequence[Vector]) -> list[Numbers]:
        ends = np.cumsum([len(weight) for weight in experts])
        if ends[-1] <= most:
            return everything(experts)
        chosen = np.sort(np.argsort(-np.concatenate(experts), kind="stable")[:most])
        starts = [0, *ends[:-1].tolist()]
        parts = np.split(chosen, np.searchsorted(chosen, starts[1:]))
        return [part - start for part, start in zip(parts, starts, strict=True)]

    return keep


def experts_of(sets: Sequence[LayerSet]) -> tuple[tuple[int, ...], ...]:
    """Return the number of units of each expert, for each matrix set of a layer; one number for a dense layer.

    A shared expert several times as large as the others counts as several experts of their size: if both were made of
    one dense layer, its units have a similar order in all of them.
    """
    sizes = [[one.units] * int(np.prod(one.stacked)) for one in sets]
    least = min(min(parts) for parts in sizes)
    if least <= SMALLEST or len(sizes) == 1:
        return tuple(map(tuple, sizes))
    divided = [[[least] * (part // least) if part % least == 0 else [part] for part in parts] for parts in sizes]
    return tuple(tuple(itertools.chain(*parts)) for parts in divided)
