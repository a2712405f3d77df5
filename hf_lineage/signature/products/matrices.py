"""Matrices: the writer or reader factor of one role of a matrix set, oriented and unpacked from a stored tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import KERNEL, LayerSet, Layout, is_transposed
from hf_lineage.architecture.registry import Slot
from hf_lineage.checkpoint import StoredRows, single
from hf_lineage.signature.recipe import Array

Matrix: TypeAlias = NDArray[Any] | StoredRows
Read = Callable[[str], Any]
"""A function from the name of a tensor to its values as stored, or to a StoredRows that reads its rows."""

EPSILON = 1e-5
"""The number that every batch norm of torch adds to the variance by default; no checkpoint holds it."""


def writer(layout: Layout, layer_set: LayerSet, role: str, read: Read) -> NDArray[Any]:
    """Return the writer factor (width, units), stacked experts side by side."""
    matrix = oriented(layout, layer_set.slots[role], read)
    return matrix if matrix.ndim == 2 else matrix.swapaxes(0, 1).reshape(matrix.shape[-2], -1)


def reader(layout: Layout, layer_set: LayerSet, role: str, read: Read, gains: bool) -> Matrix:
    """Return the reader factor (units, width), stacked experts one after the other.

    A head of keys or values is repeated for every query head that it serves.
    """
    slot, heads = layer_set.slots[role], layer_set.heads[role]
    if isinstance(rows := read(slot.tensor), StoredRows):
        return rows
    matrix = unpacked(oriented(layout, slot, read), layer_set, slot)
    if slot.latent:
        matrix = _through(layout, layer_set, slot, matrix, read, gains)
    if role in ("key", "value"):
        matrix = np.repeat(matrix, layer_set.heads["query"].count // heads.count, axis=0)
        matrix = np.broadcast_to(matrix, (*layer_set.stacked, *matrix.shape))
    return matrix.reshape(-1, layer_set.width)


def by_rows(layout: Layout, layer_set: LayerSet, role: str) -> bool:
    """Return whether a role of an MLP is a stored matrix as it is, so that its rows can be read some at a time."""
    slot = layer_set.slots[role]
    whole = len(slot.roles) == 1 and not slot.latent and not layer_set.stacked
    return whole and not is_transposed(layout.factorization, slot)


def gain(layout: Layout, layer_set: LayerSet, norm: str, read: Read) -> Array:
    """Return γ of a norm, in float32; of a batch norm γ / √(running variance + ε), its whole factor."""
    stored = single(read(norm))
    if norm in layer_set.variances:
        spread: Array = np.sqrt(single(read(layer_set.variances[norm])) + np.float32(EPSILON))
        return stored / spread
    return stored + 1 if layout.factorization.gain == "one_plus" else stored


def oriented(layout: Layout, slot: Slot, read: Read, name: str | None = None) -> NDArray[Any]:
    """Return a slot's tensor, or its latent one, as (..., out, in), the taps of a convolution summed."""
    stored: NDArray[Any] = read(name or slot.tensor)
    stored = single(stored).sum(axis=(2, 3)) if stored.ndim == KERNEL else stored
    return stored.mT if is_transposed(layout.factorization, slot) else stored


def unpacked(matrix: NDArray[Any], layer_set: LayerSet, slot: Slot) -> NDArray[Any]:
    """Return the heads of one role, (..., heads, size, columns), out of a matrix that may hold several."""
    packed = [layer_set.heads[role] for role in slot.roles]
    blocks = min(heads.count for heads in packed) if slot.interleaved else slot.blocks
    rows = [heads.count // blocks * heads.size for heads in packed]
    index = slot.roles.index(slot.role)
    *experts, _, columns = matrix.shape
    start = sum(rows[:index])
    mine = matrix.reshape(*experts, blocks, sum(rows), columns)[..., start : start + rows[index], :]
    return mine.reshape(*experts, packed[index].count, packed[index].size, columns)


def _through(
    layout: Layout, layer_set: LayerSet, slot: Slot, matrix: NDArray[Any], read: Read, gains: bool
) -> NDArray[Any]:
    """Return heads that read a latent (heads, size, latent), multiplied out to the stream (heads, size', width).

    Rows beyond the latent are a part of the key common to all heads; they follow each head's rows. In float32.
    """
    name, norm = slot.latent
    down = single(oriented(layout, slot, read, name))
    latent, shared = down[: matrix.shape[-1]], down[matrix.shape[-1] :]
    heads = single(matrix) @ (gain(layout, layer_set, norm, read)[:, None] * latent if gains else latent)
    if slot.role != "key" or not len(shared):
        return heads
    return np.concatenate([heads, np.broadcast_to(shared, (len(heads), *shared.shape))], axis=1)
