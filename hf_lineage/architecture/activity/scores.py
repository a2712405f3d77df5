"""Scores: functions of the logits that choose the experts, if a correction is added or a table chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
