"""Matrices: what one role of a matrix set does to the stream, oriented and unpacked from where it is stored."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hf_lineage.fit import turned
from hf_lineage.header import LayerSet
from hf_lineage.layers import KERNEL
from hf_lineage.layout import Layout
from hf_lineage.registry import Slot

Read = Callable[[str], torch.Tensor]
"""Name of a tensor -> its values as stored, on the device where the layer is computed."""

EPSILON = 1e-5
"""What every batch norm of torch adds to the variance unless told otherwise; no checkpoint holds it."""


def writer(layout: Layout, found: LayerSet, role: str, read: Read) -> torch.Tensor:
    """Return what writes into the stream, (width, units), stacked experts side by side."""
    matrix = _oriented(layout, found.slots[role], read)
    return matrix if matrix.ndim == 2 else matrix.transpose(0, 1).flatten(1)


def reader(layout: Layout, found: LayerSet, role: str, read: Read, gains: bool) -> torch.Tensor:
    """Return what reads the stream, (units, width), stacked experts one after the other.

    A head of keys or values is repeated for every query head that it serves.
    """
    slot, heads = found.slots[role], found.heads[role]
    matrix = _unpacked(_oriented(layout, slot, read), found, slot)
    if slot.latent:
        matrix = _through(layout, found, slot, matrix, read, gains)
    if role in ("key", "value"):
        matrix = matrix[:, None].expand(-1, found.heads["query"].count // heads.count, -1, -1).flatten(0, 1)
        matrix = matrix.expand(*found.stacked, -1, -1, -1)
    return matrix.reshape(-1, found.width)


def gain(layout: Layout, found: LayerSet, norm: str, read: Read) -> torch.Tensor:
    """Return γ of a norm, in float32; of a batch norm γ / √(running variance + ε), all that it multiplies with."""
    stored = read(norm).float()
    if norm in found.variances:
        return stored / (read(found.variances[norm]).float() + EPSILON).sqrt()
    return stored + 1 if layout.factorization.gain == "one_plus" else stored


def bias(found: LayerSet, role: str, read: Read) -> torch.Tensor | None:
    """Return what is added to what a role reads, (units,) in float32; None where there is nothing."""
    slot = found.slots[role]
    name = found.biases.get(slot.tensor)
    if name is None:
        return None
    return _unpacked(read(name).float()[..., None], found, slot).flatten()


def shift(found: LayerSet, norm: str | None, read: Read) -> torch.Tensor | None:
    """Return β of a norm, (width,) in float32; None where there is none."""
    name = found.biases.get(norm or "")
    return None if name is None else read(name).float()


def _oriented(layout: Layout, slot: Slot, read: Read, name: str | None = None) -> torch.Tensor:
    """A slot's tensor, or its latent one, as (..., out, in), the taps of a convolution summed."""
    stored = read(name or slot.tensor)
    stored = stored.sum(dim=(2, 3), dtype=torch.float32) if stored.ndim == KERNEL else stored
    return stored.mT if turned(layout.factorization, slot) else stored


def _unpacked(matrix: torch.Tensor, found: LayerSet, slot: Slot) -> torch.Tensor:
    """The heads of one role, (..., heads, size, columns), out of a matrix that may hold several."""
    packed = [found.heads[role] for role in slot.roles]
    blocks = min(heads.count for heads in packed) if slot.interleaved else slot.blocks
    rows = [heads.count // blocks * heads.size for heads in packed]
    index = slot.roles.index(slot.role)
    *experts, _, columns = matrix.shape
    mine = torch.split(matrix.reshape(*experts, blocks, sum(rows), columns), rows, dim=-2)[index]
    return mine.reshape(*experts, packed[index].count, packed[index].size, columns)


def _through(
    layout: Layout, found: LayerSet, slot: Slot, matrix: torch.Tensor, read: Read, gains: bool
) -> torch.Tensor:
    """Heads that read a latent (heads, size, latent) as what they do to the stream (heads, size', width), in float32.

    Rows beyond the latent are a part of the key that all heads share; it follows what each has of its own.
    """
    name, norm = slot.latent
    down = _oriented(layout, slot, read, name).float()
    latent, shared = down[: matrix.shape[-1]], down[matrix.shape[-1] :]
    heads = matrix.float() @ (gain(layout, found, norm, read)[:, None] * latent if gains else latent)
    if slot.role != "key" or not len(shared):
        return heads
    return torch.cat([heads, shared.expand(len(heads), -1, -1)], dim=1)
