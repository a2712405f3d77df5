"""Interim analyses: in which order layers are read, and after how many of them reading may stop with a verdict.

Reading costs time and downloaded bytes, and a few layers show a descendant as well as all layers do. The evidence is
analysed at a fixed number of points, each time with an exact test of its own at alpha over that number (Bonferroni).
So all analyses together call independent models RELATED with probability alpha at most, whatever decides the stop.

The order is drawn anew for every run: whoever could predict it could copy only the layers that are read first.
"""

from __future__ import annotations

import math
import secrets

import numpy as np

from hf_lineage.signature import random_stream

FEWEST_LAYERS = 8
"""Models of fewer layers are read completely, without interim analyses."""
DOUBTFUL = 0.1
"""With an uncorrected p-value up to this, more layers are read before the verdict is UNRELATED."""
GRAFT = 0.25
"""UNRELATED needs so many layers that a copy of this share of all layers is missed with probability MISSED at most."""
MISSED = 0.01
"""The probability that copied layers are not among those read, and that a bound on unread layers is wrong."""


def drawn_seed() -> int:
    """Return a seed for the order of layers that nobody can foresee."""
    return secrets.randbelow(2**32)


def reading_order(layers: int, seed: int) -> tuple[int, ...]:
    """Return the layers in an order drawn at random, the same on every platform for one seed.

    >>> reading_order(8, seed=0)
    (3, 0, 7, 2, 1, 6, 4, 5)
    """
    words = random_stream(f"order of layers {seed}").random_raw(layers)
    return tuple(int(layer) for layer in np.argsort(words, kind="stable"))


def at_least(inherited: int, read: int, layers: int) -> int:
    """Return a lower bound on how many of all layers are inherited, from those that were read (one-sided, 99 %).

    Suppose K layers are inherited, and `read` layers are drawn without replacement. The bound is the least K for which
    at least `inherited` of these are among the K with a probability above MISSED (inverse hypergeometric distribution).

    >>> at_least(6, read=6, layers=32), at_least(32, read=32, layers=32)
    (17, 32)
    """
    everything = math.comb(layers, read)
    for among in range(inherited, layers + 1):
        ways = sum(
            math.comb(among, hit) * math.comb(layers - among, read - hit)
            for hit in range(inherited, min(read, among) + 1)
        )
        if ways > MISSED * everything:
            return among
    return layers


def fewest(layers: int, share: float) -> int:
    """Return how many layers, all of them inherited, show that more than this share of all layers is inherited.

    >>> [fewest(layers, 0.5) for layers in (12, 24, 32, 80)]
    [5, 6, 6, 7]
    """
    return next((read for read in range(1, layers) if at_least(read, read, layers) > share * layers), layers)


def enough(layers: int) -> int:
    """Return how many layers have to be read before the verdict may be UNRELATED.

    If g of L layers were copied, t layers drawn at random miss them all with probability C(L - g, t) / C(L, t).
    """
    copied = graft(layers)
    return next(
        read for read in range(1, layers + 1) if math.comb(layers - copied, read) <= MISSED * math.comb(layers, read)
    )


def graft(layers: int) -> int:
    """Return how many copied layers are looked for before the verdict is UNRELATED; fewer may be among the unread."""
    return max(1, math.ceil(GRAFT * layers))


def analyses(layers: int, share: float) -> tuple[int, ...]:
    """Return how many layers have been read at each analysis; at the last one it is all of them.

    If fewer layers would be left than are searched for, these are read too.

    >>> analyses(32, 0.5), analyses(8, 0.5), analyses(6, 0.5)
    ((6, 13, 32), (5, 8), (6,))
    """
    early = (fewest(layers, share), enough(layers)) if layers >= FEWEST_LAYERS else ()
    return tuple(sorted({*(read for read in early if layers - read >= graft(layers)), layers}))
