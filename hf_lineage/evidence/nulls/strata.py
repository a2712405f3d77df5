"""Strata: sets of rows of similar sizes, within which an exact test permutes where flips of signs say nothing.

Publishers leave rows in the order of their sizes: tools that prune sort by them. Two independent models then have
similar sizes in the same places, and all permutations together would show a relation. Within a stratum they do not.
Permuting within strata is a part of permuting everything, so it is exact wherever that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature import Vector

LEAST, RATIO = 2, 1.1
"""A stratum has at least so many rows, and none is divided whose sizes differ by less than this ratio.

Measured on units that lean on common directions the more the larger they are, both models sorted by size: strata of 8
rows leave 6 to 30 % of independent pairs at p <= .01; strata of 4 leave up to 8 %, those of 2 or 3 one. Strata of m
rows leave √((m - 1) / m) of z, and rows of one size need no strata.
"""
Numbers = NDArray[np.int64]


def strata_of(sizes: Vector) -> list[Numbers]:
    """Return sets of rows that are alike in each of some sizes, given as (kinds, rows).

    They are halved at the median of the size that differs most, in the ratio of its extremes. Rows of one size stay
    together, so that the strata are the same after any permutation within them: the test is exact.
    """
    positive = np.where(sizes > 0, sizes, 1.0)
    logarithms = np.where(sizes > 0, np.log(positive), np.log(positive).min(initial=0.0) - 1.0)
    done, waiting = list[Numbers](), [np.arange(sizes.shape[1])]
    while waiting:
        some = waiting.pop()
        mine = logarithms[:, some]
        widest = mine[np.ptp(mine, axis=1).argmax()]
        low = widest < np.median(widest)
        if len(some) < 2 * LEAST or not low.any() or np.ptp(widest) < np.log(RATIO):
            done.append(some)
        else:
            waiting += [some[low], some[~low]]
    return done


def orders_within(sets: Sequence[Numbers], count: int, stream: np.random.Philox) -> Numbers:
    """Return so many permutations (count, rows) within some sets of rows, drawn from raw random words."""
    size = sum(map(len, sets))
    words = stream.random_raw(count * size).reshape(count, size)
    orders = np.empty((count, size), np.int64)
    for length in {len(some) for some in sets}:
        alike = np.stack([some for some in sets if len(some) == length])
        orders[:, alike] = np.take_along_axis(alike[None], np.argsort(words[:, alike], axis=2, kind="stable"), axis=2)
    return orders
