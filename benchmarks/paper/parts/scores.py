"""Scores: the paper's lineage score of any network by the library, and AUROC, Gap-Z and correlation of many scores."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from hf_lineage.checking.inspect import Pairing
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.signature.devices import workers
from hf_lineage.signature.extract import empty, put_block
from hf_lineage.signature.matrix_product import MatrixProduct, Probes
from hf_lineage.signature.recipe import RECIPES, Recipe
from hf_lineage.signature.residual import summarise
from hf_lineage.signature.values import PathSignature

Block = tuple[torch.Tensor, torch.Tensor]  # W_in (h, d) and W_out (d, h) of one layer

EXACT = replace(RECIPES["paper"], probes=None)
"""The paper to the letter: plain products, centred on the identity, no sketch."""


def signature(blocks: Sequence[Block], recipe: Recipe = EXACT) -> PathSignature:
    """Return the signature of the products W_out W_in of some layers."""
    width = blocks[0][1].shape[0]
    probes = Probes.draw(recipe, width)
    found = empty(len(blocks), probes.shape, len(probes.coordinates))
    with workers() as share:
        for layer, (w_in, w_out) in enumerate(blocks):
            put_block(
                found, layer, summarise([MatrixProduct(w_out.numpy(), w_in.numpy(), part=1)], probes, recipe, share)
            )
    return found


def score(a: PathSignature, b: PathSignature) -> float:
    return compare_paths(a, b).score


def uncentred(exact: PathSignature) -> PathSignature:
    """Return an exact signature of M itself instead of its centred residual: the identity is put back."""
    width = exact.sketch.shape[1]
    identity = (exact.trace / width)[:, None, None] * np.eye(width)
    return replace(exact, sketch=(np.asarray(exact.sketch) + identity).astype(np.float32))


def trace_score(suspect: PathSignature) -> float:
    """Return the mean trace concentration of a suspect's layers: the paper's verifier that fails.

    It sees whether a model has been trained, not whether it comes from the reference.
    """
    return float(suspect.concentration.mean())


def shared_trace(a: PathSignature, b: PathSignature) -> float:
    """Return the mean over the layers of the smaller concentration of the two models: another such verifier."""
    return float(np.minimum(a.concentration, b.concentration).mean())


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
