"""Sequential permutation test: how many permutations are drawn for a p-value, by a rule fixed beforehand.

Besag and Clifford (1991) stop as soon as h permutations have reached the observed score, so that a pair of independent
models costs about forty of them. Two rules are added: where none of the first n reaches it, the sequence ends, and
where a few do, it goes on, so that a p-value near alpha is estimated more precisely.

**Why p is valid.** If the two are independent, the observed score has any rank among those of n permutations with the
same probability: none of the first n reaches it with 1 / (n + 1), at most r - 1 of s - 1 with r / s, and `p_value` is
the probability that one or the other is so, which covers every outcome that is called at least as extreme. A sequence
stopped by FEW within the first n is called less extreme than all that passed there, and FEW / l is the probability
of fewer than FEW in l - 1 permutations, which all of those share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

FEW = 20
"""Of the first n permutations so many that reach the observed score end the sequence: p is about FEW / n at least."""
MANY = 200
"""The same number beyond the first n: the relative standard error of p is then 7 %."""
LONGER = 20
"""How many times as many permutations there may be in all: FEW / n times LONGER is MANY."""


class Stop(StrEnum):
    """Why a sequence of permutations ended."""

    REACHED = "reached"
    """As many of them as the rule asks for reached the observed score."""
    UNREACHED = "unreached"
    """None of the first n did."""
    EXHAUSTED = "exhausted"
    """All were drawn."""


def most(first: int) -> int:
    """Return how many permutations are drawn at most if `first` of them are drawn at first."""
    return LONGER * (first + 1) - 1


def stop(drawn: int, reached: int, first: int) -> Stop | None:
    """Return why a sequence ends after this permutation, None if it goes on.

    `reached` of `drawn` permutations had at least the observed score, this one perhaps among them.
    """
    if drawn == first and not reached:
        return Stop.UNREACHED
    if reached >= (FEW if drawn <= first else MANY):
        return Stop.REACHED
    return Stop.EXHAUSTED if drawn == most(first) else None


def sequence(observed: float, under_permutations: Iterator[float], first: int) -> list[float]:
    """Return as many statistics under permutations as the rule asks for, in the order in which they are drawn."""
    drawn: list[float] = []
    reached = 0
    while not (drawn and stop(len(drawn), reached, first)):
        drawn.append(next(under_permutations))
        reached += not drawn[-1] < observed
    return drawn


def p_value(drawn: int, reached: int, first: int) -> float:
    """Return the p-value of a sequence that ended here, at least 1 / (first + 1)."""
    ended = stop(drawn, reached, first) is Stop.REACHED
    rank, size = (reached, drawn) if ended else (reached + 1, drawn + 1)
    if drawn <= first:
        return rank / size
    # None of the first n reaches the observed score, and yet so many of all do: none of these is among the first n.
    missed = math.prod((size - 1 - first - number) / (size - number) for number in range(rank))
    return rank / size + missed / (first + 1)
