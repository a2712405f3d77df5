"""Matrices: the writer or reader factor of one role of a matrix set, oriented and unpacked from a stored tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hf_lineage.architecture.fit import turned
from hf_lineage.architecture.layers import KERNEL
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.lookup import Slot
from hf_lineage.architecture.matrix_sets import LayerSet

Read = Callable[[str], torch.Tensor]
"""Name of a tensor -> its values as stored, on the device where the layer is computed."""

EPSILON = 1e-5
"""What every batch norm of torch adds to the variance unless told otherwise; no checkpoint holds it."""


def writer(layout: Layout, layer_set: LayerSet, role: str, read: Read) -> torch.Tensor:
    """Return the writer factor (width, units), stacked experts side by side."""
    matrix = _oriented(layout, layer_set.slots[role], read)
    return matrix if matrix.ndim == 2 else matrix.transpose(0, 1).flatten(1)


def reader(layout: Layout, layer_set: LayerSet, role: str, read: Read, gains: bool) -> torch.Tensor:
    """Return the reader factor (units, width), stacked experts one after the other.

    A head of keys or values is repeated for every query head that it serves.
    """
    slot, heads = layer_set.slots[role], layer_set.heads[role]
    matrix = _unpacked(_oriented(layout, slot, read), layer_set, slot)
    if slot.latent:
        matrix = _through(layout, layer_set, slot, matrix, read, gains)
    if role in ("key", "value"):
        matrix = matrix[:, None].expand(-1, layer_set.heads["query"].count // heads.count, -1, -1).flatten(0, 1)
        matrix = matrix.expand(*layer_set.stacked, -1, -1, -1)
    return matrix.reshape(-1, layer_set.width)


def gain(layout: Layout, layer_set: LayerSet, norm: str, read: Read) -> torch.Tensor:
    """Return γ of a norm, in float32; of a batch norm γ / √(running variance + ε), its whole factor."""
    stored = read(norm).float()
    if norm in layer_set.variances:
        return stored / (read(layer_set.variances[norm]).float() + EPSILON).sqrt()
    return stored + 1 if layout.factorization.gain == "one_plus" else stored


def bias(layer_set: LayerSet, role: str, read: Read) -> torch.Tensor | None:
    """Return the bias of a role, (units,) in float32; None where there is none."""
    slot = layer_set.slots[role]
    name = layer_set.biases.get(slot.tensor)
    if name is None:
        return None
    return _unpacked(read(name).float()[..., None], layer_set, slot).flatten()


def shift(layer_set: LayerSet, norm: str | None, read: Read) -> torch.Tensor | None:
    """Return β of a norm, (width,) in float32; None where there is none."""
    name = layer_set.biases.get(norm or "")
    return None if name is None else read(name).float()


def _oriented(layout: Layout, slot: Slot, read: Read, name: str | None = None) -> torch.Tensor:
    """A slot's tensor, or its latent one, as (..., out, in), the taps of a convolution summed."""
    stored = read(name or slot.tensor)
    stored = stored.sum(dim=(2, 3), dtype=torch.float32) if stored.ndim == KERNEL else stored
    return stored.mT if turned(layout.factorization, slot) else stored


def _unpacked(matrix: torch.Tensor, layer_set: LayerSet, slot: Slot) -> torch.Tensor:
    """The heads of one role, (..., heads, size, columns), out of a matrix that may hold several."""
    packed = [layer_set.heads[role] for role in slot.roles]
    blocks = min(heads.count for heads in packed) if slot.interleaved else slot.blocks
    rows = [heads.count // blocks * heads.size for heads in packed]
    index = slot.roles.index(slot.role)
    *experts, _, columns = matrix.shape
    mine = torch.split(matrix.reshape(*experts, blocks, sum(rows), columns), rows, dim=-2)[index]
    return mine.reshape(*experts, packed[index].count, packed[index].size, columns)


def _through(
    layout: Layout, layer_set: LayerSet, slot: Slot, matrix: torch.Tensor, read: Read, gains: bool
) -> torch.Tensor:
    """Heads that read a latent (heads, size, latent), multiplied out to the stream (heads, size', width), in float32.

    Rows beyond the latent are a part of the key common to all heads; they follow the rows of each head.
    """
    name, norm = slot.latent
    down = _oriented(layout, slot, read, name).float()
    latent, shared = down[: matrix.shape[-1]], down[matrix.shape[-1] :]
    heads = matrix.float() @ (gain(layout, layer_set, norm, read)[:, None] * latent if gains else latent)
    if slot.role != "key" or not len(shared):
        return heads
    return torch.cat([heads, shared.expand(len(heads), -1, -1)], dim=1)
