"""Rival methods: those that read weights, and those that run both models on data (SVCCA, CKA, IPGuard for regression).

All see two models as the blocks (W_in (h, d), W_out (d, h)) of their layers or as activations, and return a score that
is larger for related models; distances come with a minus. Re-Basin with scale stands in `benchmarks.rebasin`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import subspace_angles
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benchmarks import rebasin
from benchmarks.rebasin import Block

Blocks = Sequence[Block]
AnyBlock = tuple[Any, Any]  # a block of arrays or of tensors


def arrays(blocks: Sequence[tuple[Any, Any]]) -> list[Block]:
    return [(np.asarray(w_in), np.asarray(w_out)) for w_in, w_out in blocks]


def flat(blocks: Blocks) -> NDArray[np.float32]:
    """Return the weights of every block in one row (L, 2dh)."""
    return np.stack([np.concatenate([w_in.ravel(), w_out.ravel()]) for w_in, w_out in blocks])


def weight_cosine(a: Iterable[AnyBlock], b: Iterable[AnyBlock]) -> float:
    """Return the cosine of all the weights of two models, taken as two vectors; one layer of both is needed at a time.

    As in Wortsman et al. 2022 and most comparisons of checkpoints; nothing is aligned.
    """
    inner, ours, theirs = np.sum([_products(*layers) for layers in zip(a, b, strict=True)], axis=0)
    return float(inner / np.sqrt(ours * theirs))


def _products(a: AnyBlock, b: AnyBlock) -> tuple[float, float, float]:
    """The inner product of two blocks, and that of each with itself."""
    ours, theirs = (np.concatenate([np.ravel(matrix) for matrix in block]).astype(np.float64) for block in (a, b))
    return float(ours @ theirs), float(ours @ ours), float(theirs @ theirs)


def aligned_frobenius(a: Blocks, b: Blocks) -> float:
    """Return minus the mean distance of matched blocks, ‖A_i - B_π(i)‖_F / ‖A_i‖_F, blocks matched as wholes.

    Hungarian assignment of blocks (Kuhn 1955) on the same distances, as the paper says of its baseline: what is
    aligned is the order of the blocks, not that of the units within them.
    """
    ours, theirs = (flat(blocks).astype(np.float64) for blocks in (a, b))
    squares, others = (np.square(rows).sum(axis=1) for rows in (ours, theirs))
    distances = np.sqrt(np.maximum(squares[:, None] + others - 2 * ours @ theirs.T, 0.0)) / np.sqrt(squares)[:, None]
    return -float(distances[linear_sum_assignment(distances)].mean())


def singular_values(a: Blocks, b: Blocks) -> float:
    """Return minus the mean distance ‖σ(A) - σ(B)‖₂ / ‖σ(A)‖₂ of the singular values of matrices in the same place."""
    places = (place for layers in zip(a, b, strict=True) for place in zip(*layers, strict=True))
    return -float(np.mean([_spectral(*place) for place in places]))


def _spectral(one: rebasin.Matrix, other: rebasin.Matrix) -> float:
    ours, theirs = (np.linalg.svd(matrix, compute_uv=False) for matrix in (one, other))
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours))


def frobenius_pairing(blocks: Iterable[AnyBlock]) -> NDArray[np.int64]:
    """Return with which W_in each W_out is matched (L,), the rival of trace concentration in the pairing experiment.

    Projections that were trained together have grown alike: the assignment of least | ‖W_out,i‖_F - ‖W_in,j‖_F |.
    """
    reads, writes = np.array([[np.linalg.norm(matrix) for matrix in block] for block in blocks]).T
    return np.asarray(linear_sum_assignment(np.abs(writes[:, None] - reads[None, :]))[1], dtype=np.int64)


METHODS: Mapping[str, Any] = {
    "Re-Basin+scale": rebasin.similarity,
    "aligned Frobenius": aligned_frobenius,
    "singular values": singular_values,
    "weight cosine": weight_cosine,
}
"""By name, each of two models' blocks."""


Activations = NDArray[np.float64]  # samples by features


def svcca(x: Activations, y: Activations, variance: float = 0.99) -> float:
    """Return the mean canonical correlation of two sets of activations, in [0, 1].

    Raghu et al. 2017: both are reduced to the singular directions that hold 99 % of their variance, then compared by
    CCA. Canonical correlations are the cosines of the principal angles of the two column spaces (Björck and Golub
    1973), which SciPy computes.
    """
    angles = subspace_angles(_directions(x, variance), _directions(y, variance))
    return float(np.cos(angles).mean())


def _directions(x: Activations, variance: float) -> Activations:
    """The left singular vectors of centred activations that hold a share of the variance."""
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    held = np.cumsum(values**2) / np.sum(values**2)
    kept: Activations = left[:, : int(np.searchsorted(held, variance)) + 1]
    return kept


def cka(x: Activations, y: Activations) -> float:
    """Return the linear CKA ‖YᵀX‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F) of centred activations, in [0, 1] (Kornblith et al. 2019)."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return float(np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def by_layer(measure: Callable[[Activations, Activations], float], a: Iterable[Tensor], b: Iterable[Tensor]) -> float:
    """Return the mean over the layers of a measure of two models' activations (..., features) on the same data."""
    pairs = zip(a, b, strict=True)
    return float(np.mean([measure(*(layer.flatten(0, -2).double().numpy() for layer in pair)) for pair in pairs]))


Model = Callable[[Tensor], Tensor]  # inputs (b, in) to one number for each (b,)


def fingerprint(model: Model, starts: Tensor, margin: float = 0.05, steps: int = 100, rate: float = 0.05) -> Tensor:
    """Return inputs near the boundary of a regression model, half on either side of it (b, in).

    IPGuard (Cao, Jia and Gong 2021) moves inputs by Adam until a classifier's two leading classes differ by a margin.
    A regression has no classes: here they are the outputs above and below the median, and inputs are moved until they
    lie a margin above or below it.
    """
    with torch.no_grad():
        said = model(starts)
        goal = said.median() + margin * said.std() * torch.tensor([1.0, -1.0]).repeat(len(starts))[: len(starts)]
    moved = starts.clone().requires_grad_()
    optimizer = torch.optim.Adam([moved], lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(moved) - goal).square().sum()
        torch.autograd.backward(loss)
        optimizer.step()
    return moved.detach()


@torch.no_grad()
def ipguard(reference: Model, suspect: Model, inputs: Tensor, boundary: float) -> float:
    """Return the share of fingerprint inputs that both models put on the same side of the boundary, in [0, 1]."""
    return float(((reference(inputs) > boundary) == (suspect(inputs) > boundary)).float().mean())
