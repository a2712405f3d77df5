"""Rival methods that run both models on data: SVCCA, CKA, and IPGuard for regression."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import subspace_angles
from torch import Tensor

Activations = NDArray[np.float64]
"""Samples by features."""


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


Model = Callable[[Tensor], Tensor]
"""Inputs (b, in) to one number for each (b,)."""


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
