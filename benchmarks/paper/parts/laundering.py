"""Laundering of residual MLPs: hidden units in another order, rescaled, the function left where it was."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.paper.experiment import ClaimError
from benchmarks.paper.parts.models import Networks, outputs

TOLERANCE = 1e-4  # by how much outputs may move: the paper's gate


class FunctionError(ClaimError):
    """An edit that should have left the function of a model where it was has moved it."""


Units = Callable[[int, torch.Generator], Tensor]  # what is drawn for h hidden units (h,)


def in_another_order(hidden: int, random: torch.Generator) -> Tensor:
    return torch.randperm(hidden, generator=random)


def in_order(hidden: int, random: torch.Generator) -> Tensor:  # noqa: ARG001 (one of the choices)
    """Return the permutation that changes nothing (h,)."""
    return torch.arange(hidden)


def scales(most: float) -> Units:
    """Return a way to draw factors (h,), log-uniform from 1 / most to most."""

    def drawn(hidden: int, random: torch.Generator) -> Tensor:
        return torch.exp((2 * torch.rand(hidden, generator=random) - 1) * math.log(most))

    return drawn


LAUNDERINGS: dict[str, tuple[Units, Units]] = {
    "none": (in_order, scales(1)),
    "P": (in_another_order, scales(1)),
    "D_m": (in_order, scales(2)),
    "D_s": (in_order, scales(10)),
    "PD": (in_another_order, scales(10)),
}
"""The paper's variants but PDFT, which is PD and then five epochs of fine-tuning. It does not say how strong the D of
PD is; here it is the strong one."""


def rearranged(
    w_in: Tensor, b_in: Tensor, w_out: Tensor, order: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return P D W_in, P D b_in and W_out D⁻¹ Pᵀ of one block."""
    return ((w_in * scale[:, None])[order], (b_in * scale)[order], (w_out / scale)[:, order])


def laundered(networks: Networks, name: str, seed: int, inputs: Tensor) -> Networks:
    """Return networks laundered in a way that LAUNDERINGS names, every block of every one by itself.

    Raise FunctionError where an output on the inputs (b, in) moves by more than the tolerance.
    """
    draw_order, draw_scale = LAUNDERINGS[name]
    random = torch.Generator().manual_seed(seed)
    weights = {key: networks.weights[key].clone() for key in ("w_in", "b_in", "w_out")}
    for number in range(len(networks)):
        for layer in range(networks.shape.layers):
            w_in, b_in, w_out = parts = [tensor[number, layer] for tensor in weights.values()]
            order, scale = (draw(networks.shape.hidden, random) for draw in (draw_order, draw_scale))
            for part, found in zip(parts, rearranged(w_in, b_in, w_out, order, scale), strict=True):
                part.copy_(found)
    edited = networks.having(**weights)
    preserved(outputs(networks, inputs), outputs(edited, inputs))
    return edited


def preserved(before: Tensor, after: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise FunctionError where an output has moved by more than the tolerance."""
    moved = float((after - before).abs().max())
    if not moved <= tolerance:
        raise FunctionError(f"the outputs moved by {moved:.2g}, more than {tolerance:g}")
