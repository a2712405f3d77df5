"""Routing: how much of what experts compute reaches the stream, if the input of their router is standard normal.

An expert with good odds need not count. Logits of experts depend on each other, so one of two others may always outbid
it; groups of experts are chosen before experts; and a chosen expert may be mixed in with a share of almost zero. So
tokens are sent through the whole router. Experts are chosen by scores, functions of the logits, where a correction is
added, or where a table chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.activity.curves import Vector


@dataclass(frozen=True)
class Scores:
    """What a router makes of the logits of its experts."""

    chosen_by: Callable[[Vector], Vector]
    """The score that the correction is added to; it rises with the logit."""
    logit: Callable[[Vector], Vector]
    """Its inverse, up to a number that all experts share; minus infinity and infinity beyond its ends."""
    least: float
    most: float
    mixed_by: Callable[[Vector], Vector]
    """What the experts of a token are mixed by, up to a factor for each token."""
    alone: bool = True
    """Whether the score of an expert depends on its own logit alone, and what is chosen is mixed by shares of one."""


def _sigmoid(logits: Vector) -> Vector:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-logits))


def _logit(score: Vector) -> Vector:
    from scipy.special import logit

    clipped: Vector = logit(np.clip(score, 0.0, 1.0))
    return clipped


def _same(logits: Vector) -> Vector:
    return logits


def _root_softplus(logits: Vector) -> Vector:
    root: Vector = np.sqrt(np.logaddexp(0.0, logits))
    return root


def _root_softplus_logit(score: Vector) -> Vector:
    square = np.maximum(score, 0.0) ** 2
    with np.errstate(divide="ignore", over="ignore"):
        inverse: Vector = square + np.log(-np.expm1(-square))
    return inverse


def _softmax(logits: Vector) -> Vector:
    """Shares of one along the last axis."""
    sizes = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Vector = sizes / sizes.sum(axis=-1, keepdims=True)
    return shares


def _logarithm(score: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        logarithm: Vector = np.log(np.maximum(score, 0.0))
    return logarithm


SCORES = {
    "sigmoid": Scores(_sigmoid, _logit, 0.0, 1.0, _sigmoid),
    "logits": Scores(_same, _same, -np.inf, np.inf, _sigmoid),
    "sqrtsoftplus": Scores(_root_softplus, _root_softplus_logit, 0.0, np.inf, _root_softplus),
    "softmax": Scores(_softmax, _logarithm, 0.0, 1.0, _softmax, alone=False),
}
"""By the name that the registry gives them."""
SIGMOID = SCORES["sigmoid"]


@dataclass(frozen=True)
class Corrected:
    """Scores of experts to which something is added."""

    added: Vector
    scores: Scores

    def ends(self, spread: Vector, centre: Vector) -> tuple[Vector, Vector]:
        """The least and the most that each may be."""
        least, most = (
            self.scores.chosen_by(centre + side * 40 * spread) if np.isinf(end) else end
            for side, end in ((-1, self.scores.least), (1, self.scores.most))
        )
        return self.added + least, self.added + most


PER_CHOICE, FEWEST, MOST = 64, 2048, 2**15
"""Tokens for each time that an expert is chosen on average, and tokens at least and at most."""
AT_A_TIME = 2**21
"""Logits that are held at a time."""
LENIENT = 4.0
"""An expert counts with its odds unless it is mixed in so many times less: experts differ, and tokens are a sample."""
SUMMED = 2
"""A group is chosen by so many of its best experts if scores are corrected, else by the best one."""
SMALLEST = 1e-300
Logits = NDArray[np.float64]
Table = NDArray[np.int64]


class Router(NamedTuple):
    """What is known of a router besides the sizes of its rows."""

    products: Logits
    """(experts, experts): the inner products of its rows, the gain of the norm in front folded in."""
    centre: Vector
    """(experts,): the mean logits."""
    chosen: int
    """Experts of a token."""
    correction: Vector | None = None
    """(experts,): what is added to the scores of the experts before they are chosen."""
    groups: tuple[int, int] = (1, 1)
    """How many groups of experts there are, and from how many of them a token chooses."""
    scores: Scores = SIGMOID
    """The scores that are corrected and that mix the chosen experts, if there is a correction or a table."""
    table: Table | None = None
    """(tokens of the vocabulary, chosen): the experts of each, where none is chosen by its score."""


def counting(odds: Vector, router: Router, words: np.random.Philox) -> Vector:
    """Return the odds (experts,) of experts, reduced for experts that are chosen but hardly ever mixed in."""
    if len(odds) <= 1 or not np.isfinite(router.products).all() or not np.isfinite(odds).all():
        return odds
    return np.minimum(odds, LENIENT * mixed_in(router, words))


def mixed_in(router: Router, words: np.random.Philox) -> Vector:
    """Return the mean share of each expert in what a token is given, times the number of experts that it is given."""
    experts = len(router.centre)
    chosen = min(router.chosen, experts)
    tokens = min(max(PER_CHOICE * experts // chosen, FEWEST), MOST)
    root = _root(router.products)
    total, left = np.zeros(experts), tokens
    while left:
        count = min(left, max(AT_A_TIME // experts, 1))
        logits = router.centre + _normal(words, (count, experts)) @ root
        named = None if router.table is None else router.table[_drawn(words, count, len(router.table))]
        total += _shares(logits, chosen, router, named).sum(axis=0)
        left -= count
    return total * (chosen / tokens)


def listed(table: Table, experts: int) -> Vector:
    """Return for how large a part of the vocabulary a table names each expert."""
    rows = np.sort(table, axis=1)
    first = np.ones(rows.shape, bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return np.bincount(rows[first], minlength=experts) / max(len(rows), 1)


def _root(products: Logits) -> Logits:
    """The symmetric root of a matrix of inner products, which does not depend on the order of the experts."""
    squares, directions = np.linalg.eigh(products)
    root: Logits = (directions * np.sqrt(np.maximum(squares, 0.0))) @ directions.T
    return root


def _normal(words: np.random.Philox, shape: tuple[int, int]) -> Logits:
    """Nearly normal numbers from raw words, the same on every platform: sums of four uniform ones."""
    raw = words.random_raw(shape[0] * shape[1])
    sums = sum(((raw >> np.uint64(16 * part)) & np.uint64(0xFFFF)).astype(np.float64) for part in range(4))
    normal: Logits = ((sums - 2 * 65535) / np.sqrt(4 * (2**32 - 1) / 12)).reshape(shape)
    return normal


def _drawn(words: np.random.Philox, count: int, size: int) -> NDArray[np.int64]:
    """Tokens of a vocabulary, each as probable as any other."""
    return (words.random_raw(count) % np.uint64(size)).astype(np.int64)


def _shares(logits: Logits, chosen: int, router: Router, named: Table | None) -> Logits:
    """The share of each expert in what every token is given (tokens, experts), 0 for those that are not chosen."""
    places = _best(logits, chosen, router) if named is None else named
    with np.errstate(invalid="ignore"):
        given, least = _given(logits, places, router)
    given = np.nan_to_num(given)
    given = given / np.maximum(given.sum(axis=1, keepdims=True), least)
    shares = np.zeros_like(logits)
    np.add.at(shares, (np.arange(len(shares))[:, None], places), given)
    return shares


def _given(logits: Logits, places: Table, router: Router) -> tuple[Logits, float]:
    """The weights of the chosen experts (tokens, chosen), and the least sum that they are divided by."""
    chosen = np.take_along_axis(logits, places, axis=1)
    if router.correction is None and router.table is None:
        return np.exp(chosen - chosen.max(axis=1, keepdims=True)), SMALLEST
    if router.scores.alone:
        return router.scores.mixed_by(chosen), SMALLEST
    # Some classes do not divide by the sum: what experts are given that are all alike is enough.
    return np.take_along_axis(router.scores.mixed_by(logits), places, axis=1), places.shape[1] / logits.shape[1]


def _best(logits: Logits, chosen: int, router: Router) -> NDArray[np.int64]:
    """The experts (tokens, chosen) with the best scores, corrected where there is a correction."""
    added = router.correction
    wanted = _in_groups(logits if added is None else router.scores.chosen_by(logits) + added, router)
    return np.argpartition(-wanted, chosen - 1, axis=1)[:, :chosen]


def _in_groups(scores: Logits, router: Router) -> Logits:
    """Scores (tokens, experts), those of groups minus infinity that a token does not choose from."""
    groups, taken = router.groups
    if not 0 < taken < groups or scores.shape[1] % groups:
        return scores
    by_group = scores.reshape(len(scores), groups, -1)
    best = np.sort(by_group, axis=2)[:, :, -(SUMMED if router.correction is not None else 1) :].sum(axis=2)
    left_out = np.argsort(-best, axis=1, kind="stable")[:, taken:]
    np.put_along_axis(by_group := by_group.copy(), left_out[:, :, None], -np.inf, axis=1)
    return by_group.reshape(scores.shape)
