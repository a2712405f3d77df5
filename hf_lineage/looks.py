"""Looks: in which order layers are read, and after how many of them a verdict may already be said.

Reading costs time and bytes, and a few layers show a descendant as well as all. The evidence is looked at a fixed
number of times, each time with an exact test of its own at alpha over that number (Bonferroni), so that all looks
together call independent models RELATED with probability alpha at most, however the decision to stop is made.
"""

from __future__ import annotations

import math

FIRST = 4
"""Layers that are read before the first look."""
CLEAR = 0.1
"""The least score that is called RELATED before everything is read: well above the floor, whatever the rest holds."""
DOUBTFUL = 0.1
"""A p-value up to this, before it is corrected for anything, is reason enough to read on before UNRELATED is said."""
GRAFT = 0.25
"""UNRELATED is not said before a graft of this share of the layers would have been seen ..."""
MISSED = 0.01
"""... but with this probability, if it stands in layers drawn at random. One of adjacent layers is never missed."""


def reading_order(layers: int) -> tuple[int, ...]:
    """Return the layers in the order of van der Corput (1935): each is as far as can be from those read before.

    >>> reading_order(8)
    (0, 4, 2, 6, 1, 5, 3, 7)
    """
    digits = max(layers - 1, 0).bit_length()
    turned = (int(f"{number:0{digits}b}"[::-1], 2) if digits else 0 for number in range(2**digits))
    return tuple(number for number in turned if number < layers)


def enough(layers: int) -> int:
    """Return how many layers have to be read before UNRELATED may be said.

    Of L layers g hold the graft; t drawn at random miss it with probability C(L - g, t) / C(L, t).
    """
    graft = max(1, math.ceil(GRAFT * layers))
    return next(
        read for read in range(1, layers + 1) if math.comb(layers - graft, read) <= MISSED * math.comb(layers, read)
    )


def looks(layers: int) -> tuple[int, ...]:
    """Return how many layers have been read at each look, the last of them all.

    >>> looks(32), looks(6)
    ((4, 13, 32), (6,))
    """
    early = (FIRST, enough(layers)) if layers >= 2 * FIRST else ()
    return tuple(sorted({*(read for read in early if read < layers), layers}))
