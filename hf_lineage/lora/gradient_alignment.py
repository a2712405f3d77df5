"""The trace that a base leaves in an adapter trained on it, an exact test for it, and the verdict.

A LoRA adds B A to a matrix. B is made of gradients of the base, and the gradient of a hidden unit passes through the
matrix that writes this unit; that of a residual coordinate comes from the matrices that read the stream afterwards. If
the adapter was trained on an independent base, its rows may be permuted within their exchangeable groups: hidden units,
dimensions of a head, residual coordinates. They may also be flipped. Neither changes the distribution of the pair. p is
the larger of two exact ones, each valid under its own assumption:

permutations  rows of one kind mean the same, wherever they stand.
signs         a row may be flipped together with whatever reads it, however unlike the rows are in size. The rows of a
              gate may not, nor units behind an activation: they are permuted within strata of similar size (in both).

Let B A = U Σ Vᵀ, W = U Σ^½, and P the matrix of the base that the gradient passed through. The statistic is
‖P W‖² - Σ ‖p_i‖² ‖w_i‖². What is subtracted depends on the sizes of rows alone, which sorted rows have in common. The
statistic depends on the product alone: neither a change of basis between the factors nor columns of B that A never uses
can move it.

**Why p is valid.** The first permutations end the test if p is above alpha, or at most half of the level at which
a claim is verified. Else more are drawn, p is that of all of them, and the half that an early end may
have taken is added. So independent pairs are verified with that level at most, and RELATED with alpha at most.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import as_related
from hf_lineage.evidence.measure import DOUBTFUL
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.lora.replicates import Block, Half, replicate
from hf_lineage.signature.recipe import Vector

LEAST = {"value": 1.2, "output": 0.5, "down": 1.1, "up": 0.5, "gate": 0.0, "query": 2.5, "key": 2.5, "latent": 0.0}
"""Role -> the least z of adapters on their own base, over the root of the number of directions; 0 if not measured.
Measured by `ours:adapters` of the benchmarks."""
WHOLE, FADED = 0.1, 0.3
"""Up to the first relative size of what is added, a trace is whole; at the second size nothing is left of it.

Long training moves the weights so far that the gradients are no longer those of the base that is compared.
"""


@dataclass(frozen=True)
class Trace:
    """The test of one adapter against one base."""

    roles: tuple[str, ...]
    layers: tuple[int, ...]
    """The role and the layer of every block, (b,)."""
    ratios: Vector
    """(n + 1, b): the statistic of every block, first as observed and then under each permutation."""
    directions: Vector
    """The effective number of directions of every block, (b,)."""
    sizes: Vector
    """The size of what every block adds, relative to the base, (b,)."""
    seed: int
    analyses: int = 1
    """Number of interim analyses, for which p is corrected (Bonferroni)."""
    calibrated: bool = True
    """Whether the power was measured on adapters like this one."""
    spent: float = 0.0
    """Amount that is added to p because the test could have ended after fewer permutations."""
    flipped: Vector | None = None
    """(n + 1, b): the same under flips, or as above where a block allows none; None where no block does."""

    @property
    def permutations(self) -> int:
        """Number of permutations that were drawn."""
        return len(self.ratios) - 1

    @property
    def by_role(self) -> Mapping[str, Vector]:
        """Return the sum over the blocks of each role under permutations, (n + 1,), standardised."""
        return self.halves[0].by_role

    @functools.cached_property
    def halves(self) -> tuple[Half, Half]:
        """The test by permutations, and that by flips."""
        return Half(self.roles, self.ratios), Half(self.roles, self.ratios if self.flipped is None else self.flipped)

    def power(self, alpha: float) -> float:
        """Return the probability of p <= alpha, at least, if the adapter was trained on this base, as calibrated."""
        return NormalDist().cdf(self.predicted - self.critical(alpha)) if self.calibrated else 0.0

    def effect_of(self, alpha: float, power: float) -> float:
        """Return the effect with which a test has this probability of p <= alpha."""
        return self.critical(alpha) + NormalDist().inv_cdf(power)

    def critical(self, alpha: float) -> float:
        """Return the effect at which p reaches alpha if the statistics are normally distributed."""
        several = len(self.by_role) > 1  # the sum over all roles is one more statistic
        return -NormalDist().inv_cdf(alpha / (len(self.by_role) + several) / self.analyses)

    @functools.cached_property
    def predicted(self) -> float:
        """The least effect of an adapter of this rank and size in these matrices, trained on this base."""
        left = np.clip((FADED - self.sizes) / (FADED - WHOLE), 0.0, 1.0)
        shown = self.directions * left**2
        reached = np.array([LEAST[one] * np.sqrt(shown[np.array(self.roles) == one].sum()) for one in self.by_role])
        return float(max(reached.max(), reached.sum() / np.sqrt(len(reached))))

    @property
    def effect(self) -> float:
        """Return how many deviations the adapter lies above the mean of its permutations, as in half its matrices."""
        return self.halves[0].effect

    @property
    def p_values(self) -> tuple[float, ...]:
        """The p-values by permutations and by flips, each corrected for interim analyses."""
        return tuple(min(1.0, self.analyses * half.p_value + self.spent) for half in self.halves)

    @property
    def p_value(self) -> float:
        """The larger of the two p-values: valid where the assumption of either holds."""
        return max(self.p_values)

    def p_of(self, role: str) -> float:
        """Return the p-value of one role by itself, without any correction."""
        return max(half.p_of(role) for half in self.halves)

    def z_of(self, role: str) -> float:
        """Return by how many deviations of its permutations one role lies above their mean, as power is predicted."""
        return self.halves[0].z_of(role)

    @property
    def z_of_blocks(self) -> Vector:
        """(b,): the deviations by which every block lies above the mean of its permutations."""
        return self.halves[0].z_of_blocks


def trace(blocks: Sequence[Block], permutations: int, seed: int, analyses: int = 1) -> Trace:
    """Return the test over some blocks, each of which has a product that is not zero."""
    permuted, flipped = replicate(blocks, permutations, seed)
    numbers = (np.array([one.directions for one in blocks]), np.array([one.size for one in blocks]))
    names = tuple(one.role for one in blocks), tuple(one.layer for one in blocks)
    return Trace(*names, permuted, *numbers, seed, analyses, flipped=flipped)


POWER = 0.99
"""UNRELATED needs a test that detects a trace with this probability."""
VERIFIED = 0.001
"""The largest p that verifies a claim: a share alpha of adapters is RELATED by chance, too much for a card."""
FIRST, MOST = 1_999, 9_999
"""The fewest permutations that are drawn first, and how many if these do not decide, for each interim analysis."""


def measure_trace(blocks: Sequence[Block], criteria: Criteria) -> Trace:
    """Return the test over some blocks, with as many permutations as its p-value needs."""
    first, most = (criteria.tests * (number + 1) - 1 for number in (FIRST, MOST))
    first = max(first, criteria.permutations_at_first())
    measured = trace(blocks, first, criteria.seed, criteria.analyses)
    spent = level(criteria.alpha) / 2
    if first >= most or not spent < measured.p_value <= criteria.alpha:
        return measured
    return replace(trace(blocks, most, criteria.seed, criteria.analyses), spent=spent)


def level(alpha: float) -> float:
    """Return the largest p that verifies a claim."""
    return min(alpha, VERIFIED)


def least_effect(measured: Trace, alpha: float) -> float:
    """Return the least effect that verifies a claim: the least that is predicted, and one that a test would not miss.

    With few directions, or a large size, the formula predicts almost nothing; the author of an adapter chooses both.
    """
    return max(measured.predicted, measured.effect_of(level(alpha), POWER))


def judge_trace(trace: Trace, criteria: Criteria, order_matters: str = "") -> Verdict:
    """Return the verdict on an adapter and a base; `order_matters` names an initialisation for which no null holds."""
    if order_matters:
        return Verdict(
            Code.INCONCLUSIVE,
            f"the adapter started from {order_matters}, which depends on the order of the rows of the base, so the "
            "permutation null does not hold",
            trace=trace,
        )
    if trace.p_value <= criteria.alpha:
        return _related(trace, criteria)
    if not trace.calibrated:
        return Verdict(
            Code.INCONCLUSIVE,
            "the adapter shows no trace of this base, but it is not known how strong a trace such adapters show",
            trace=trace,
        )
    power = trace.power(criteria.alpha)
    if power < POWER:
        return Verdict(
            Code.INCONCLUSIVE,
            "the adapter shows no trace of this base; with this rank and size in these matrices it would show one "
            f"only with a predicted probability of {power:.2f}",
            trace=trace,
        )
    above = f"of {power:.2f}" if power < 0.995 else "above 0.99"
    return Verdict(
        Code.UNRELATED,
        "the adapter carries no trace of this base; one trained on it would show it with a predicted probability "
        f"{above}",
        trace=trace,
    )


def _related(trace: Trace, criteria: Criteria) -> Verdict:
    highest, least = level(criteria.alpha), least_effect(trace, criteria.alpha)
    doubts = [
        *[f"p is {trace.p_value:.2g}, and at most {highest:g} verifies"] * (trace.p_value > highest),
        *[f"the effect is {trace.effect:.1f} standard deviations, and at least {least:.1f} verify"]
        * (not trace.effect >= least),
    ]
    if not doubts:
        return Verdict(
            Code.ADAPTER,
            "the adapter carries the trace of this base: it was trained on it or a near relative, or extracted from a "
            "difference to it",
            trace=trace,
        )
    weak = f"the adapter shows a trace of this base, but a weak one: {'; '.join(doubts)}"
    return replace(as_related(Code.WEAK, weak, criteria), trace=trace)


def clear(outcome: Verdict) -> bool:
    """Return whether a verdict on some layers stands, so that the others need not be read."""
    trace = outcome.trace
    if outcome.verified or trace is None:
        return True
    return outcome.code is Code.UNRELATED and trace.p_value > DOUBTFUL * trace.analyses
