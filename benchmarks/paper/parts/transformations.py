"""What becomes of released weights: noise, pruning, quantization, grafts, merges.

The first three change one matrix; `each_matrix` makes of such a change one of all the matrices of some networks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from benchmarks.paper.parts.models import BRANCH, Networks

Change = Callable[[Tensor], Tensor]
MATRICES = ("embed", "w_in", "w_out", "head")


def noisy(matrix: Tensor, relative: float, random: torch.Generator) -> Tensor:
    """Return a matrix plus normal noise of σ_rel times its standard deviation."""
    return matrix + relative * matrix.std() * torch.randn(matrix.shape, generator=random)


def pruned(matrix: Tensor, share: float) -> Tensor:
    """Return a matrix with that share of its numbers, the smallest by magnitude, set to zero (Han et al. 2015)."""
    count = round(share * matrix.numel())
    if not count:
        return matrix
    threshold = matrix.abs().flatten().kthvalue(count).values
    return torch.where(matrix.abs() > threshold, matrix, 0.0)


def quantized(matrix: Tensor, levels: float) -> Tensor:
    """Return a matrix rounded to so many equidistant values from its least to its largest."""
    least, most = matrix.aminmax()
    step = (most - least) / (levels - 1)
    return least + ((matrix - least) / step).round() * step if step > 0 else matrix


def each_matrix(networks: Networks, change: Change) -> Networks:
    """Return networks with every matrix changed by itself; biases stay."""

    def all_of(tensor: Tensor) -> Tensor:
        matrices = tensor.flatten(0, -3)
        return torch.stack([change(matrix) for matrix in matrices]).view(tensor.shape)

    return networks.changed(all_of, MATRICES)


def grafted(reference: Networks, donor: Networks, layers: Collection[int]) -> Networks:
    """Return the donor with some blocks of the reference in the place of its own."""
    chosen = torch.zeros(donor.shape.layers, dtype=torch.bool)
    chosen[list(layers)] = True

    def mixed(name: str) -> Tensor:
        theirs = donor.weights[name]
        return torch.where(chosen.view(-1, *[1] * (theirs.ndim - 2)), reference.weights[name], theirs)

    return donor.having(**{name: mixed(name) for name in BRANCH})


def merged(reference: Networks, donor: Networks, weight: float) -> Networks:
    """Return `weight` parts of the reference and the rest of the donor, in all weights (Wortsman et al. 2022)."""
    return donor.having(
        **{name: torch.lerp(theirs, reference.weights[name], weight) for name, theirs in donor.weights.items()}
    )
