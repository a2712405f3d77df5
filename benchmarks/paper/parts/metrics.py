"""Metrics of scored pairs of models: AUROC, Gap-Z, Spearman's correlation; and of paired matrices of one model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from hf_lineage.checking.inspect import Pairing

Scores = Sequence[float]


def auroc(related: Scores, unrelated: Scores) -> float:
    """Return the probability that a related pair scores above an unrelated one, ties half: U / (n₊ n₋)."""
    return float(mannwhitneyu(related, unrelated).statistic) / (len(related) * len(unrelated))


def gap_z(related: Scores, unrelated: Scores) -> float:
    """Return (μ₊ - μ₋) / √((σ₊² + σ₋²) / 2), the paper's equation for Gap-Z; ±inf where neither varies."""
    gap = float(np.mean(related) - np.mean(unrelated))
    spread = math.sqrt((np.var(related) + np.var(unrelated)) / 2)
    return gap / spread if spread > 0 else math.copysign(math.inf, gap)


def least_auroc(gap: float) -> float:
    """Return the least AUROC that goes with a positive Gap-Z; with a negative one 1 minus this is the largest.

    Cantelli's inequality for the difference of a related and an unrelated score, whose mean is the gap and whose
    variance is twice the square of the spread.
    """
    return 1 - 1 / (1 + gap**2 / 2)


def spearman(scores: Scores, truth: Scores) -> float:
    """Return the rank correlation of scores with a true degree of overlap."""
    return float(spearmanr(scores, truth).statistic)


def paired(scores: NDArray[np.float64], signs: NDArray[np.float64] | None = None) -> Pairing:
    """Return the pairing experiment on S (L, L) of layers of one kind, with the signs of their own traces (L,)."""
    unsigned = np.ones(len(scores)) if signs is None else signs
    return Pairing(scores, unsigned, np.ones_like(scores, dtype=bool), tuple(range(len(scores))))
