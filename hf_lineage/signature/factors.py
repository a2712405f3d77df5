"""Factors: the matrices of each branch of a layer, oriented, unpacked and prepared.

Every path has the form M = Σ out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix set. The
experts of a mixture are terms side by side. Heads of keys and values are repeated to line up with those of the queries.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import KERNEL, STACKED, LayerSet
from hf_lineage.architecture.layout import Layout, is_transposed
from hf_lineage.architecture.paths import PATHS, Path
from hf_lineage.architecture.registry import Slot
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import Memory, StoredRows, single
from hf_lineage.signature.devices import Share
from hf_lineage.signature.matrix_product import MatrixProduct, Rows
from hf_lineage.signature.recipe import Array, Recipe

Matrix: TypeAlias = NDArray[Any] | StoredRows
Read = Callable[[str], Any]  # from a tensor's name to its values as stored, or to a StoredRows that reads its rows

EPSILON = 1e-5  # the number that every batch norm of torch adds to the variance by default; no checkpoint holds it
OTHER_READER = {"up": "gate", "gate": "up"}  # each of the two readers of a gated unit -> the other one


def writer(layout: Layout, layer_set: LayerSet, role: str, read: Read) -> NDArray[Any]:
    """Return the writer factor (width, units), stacked experts side by side."""
    matrix = orient_matrix(layout, layer_set.slots[role], read)
    return matrix if matrix.ndim == 2 else matrix.swapaxes(0, 1).reshape(matrix.shape[-2], -1)


def reader(layout: Layout, layer_set: LayerSet, role: str, read: Read, gains: bool) -> Matrix:
    """Return the reader factor (units, width), stacked experts in turn, heads of keys or values repeated."""
    slot, heads = layer_set.slots[role], layer_set.heads[role]
    if isinstance(rows := read(slot.tensor), StoredRows):
        return rows
    matrix = unpack_heads(orient_matrix(layout, slot, read), layer_set, slot)
    if slot.latent:  # heads that read it (heads, size, latent), multiplied out to the stream (heads, size', width)
        name, norm = slot.latent
        down = single(orient_matrix(layout, slot, read, name))
        latent, shared = down[: matrix.shape[-1]], down[matrix.shape[-1] :]
        matrix = single(matrix) @ (gain(layout, layer_set, norm, read)[:, None] * latent if gains else latent)
        if role == "key" and len(shared):  # a part of the key common to all heads follows each head's rows
            matrix = np.concatenate([matrix, np.broadcast_to(shared, (len(matrix), *shared.shape))], axis=1)
    if role in ("key", "value"):
        matrix = np.repeat(matrix, layer_set.heads["query"].count // heads.count, axis=0)
        matrix = np.broadcast_to(matrix, (*layer_set.stacked, *matrix.shape))
    rows = matrix.reshape(-1, layer_set.width)
    return rows if rows.itemsize in rows.strides else np.ascontiguousarray(rows)  # else no row or column lies together


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


def orient_matrix(layout: Layout, slot: Slot, read: Read, name: str | None = None) -> NDArray[Any]:
    """Return a slot's tensor, or its latent one, as (..., out, in), the taps of a convolution summed."""
    stored: NDArray[Any] = read(name or slot.tensor)
    stored = single(stored).sum(axis=(2, 3)) if stored.ndim == KERNEL else stored
    return stored.mT if is_transposed(layout.factorization, slot) else stored


def unpack_heads(matrix: NDArray[Any], layer_set: LayerSet, slot: Slot) -> NDArray[Any]:
    """Return the heads of one role, (..., heads, size, columns), out of a matrix that may hold several."""
    packed = [layer_set.heads[role] for role in slot.roles]
    blocks = min(heads.count for heads in packed) if slot.interleaved else slot.blocks
    rows = [heads.count // blocks * heads.size for heads in packed]
    index = slot.roles.index(slot.role)
    *experts, _, columns = matrix.shape
    start = sum(rows[:index])
    mine = matrix.reshape(*experts, blocks, sum(rows), columns)[..., start : start + rows[index], :]
    return mine.reshape(*experts, packed[index].count, packed[index].size, columns)


def matrix_products(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[MatrixProduct]:
    """Yield the terms of one branch with the recipe's `gains` and `means`, but without its `cap`."""
    recipe = _with_gates(layout, path, layer, recipe)
    for layer_set in layout.sets(path)[layer]:
        yield _term(layout, layer_set, PATHS[path], recipe, read)


def terms_by_expert(
    layout: Layout, path: str, layer: int, recipe: Recipe, opened: Callable[[tuple[str, ...]], Read]
) -> Iterator[MatrixProduct]:
    """Yield what `matrix_products` does, each expert of a stack by itself; tensors are `opened` when a term is made."""
    recipe = _with_gates(layout, path, layer, recipe)
    for layer_set in layout.sets(path)[layer]:
        read = opened(_read_by((layer_set,), path, recipe))
        for expert in range(math.prod(layer_set.stacked)):
            own = functools.cache(functools.partial(_of_expert, read, expert)) if layer_set.stacked else read
            yield _term(layout, replace(layer_set, stacked=()), PATHS[path], recipe, own)


def _of_expert(read: Read, expert: int, name: str) -> NDArray[Any]:
    stored = read(name)  # of all experts, or one that they share
    if len(stored.shape) == STACKED:
        is_open = isinstance(stored, StoredRows)
        stored = stored.read(slice(expert, expert + 1), Memory())[0] if is_open else stored[expert]
    return np.asarray(stored)


def _term(layout: Layout, layer_set: LayerSet, path: Path, recipe: Recipe, read: Read) -> MatrixProduct:
    """Return the term that a matrix set adds to a path."""
    centred = recipe.means and layout.factorization.normalization == "layer_norm"

    def reads(role: str) -> Matrix:
        return reader(layout, layer_set, role, read, recipe.gains)

    def fold_gain(norm: str | None) -> Array | None:
        return gain(layout, layer_set, norm, read) if recipe.gains and norm else None

    if path.bilinear:  # both matrices read the stream
        norm, size = fold_gain(layer_set.norm), layer_set.heads[path.writer].size
        out, inn = (np.asarray(reads(role)) for role in (path.writer, path.reader))
        return MatrixProduct(out.mT, inn, size, norm, norm, centred=centred)
    other = OTHER_READER.get(path.reader, "")
    gated = recipe.gates and other in layer_set.slots
    out, rows = writer(layout, layer_set, path.writer, read), reads(path.reader)
    written, own, inner = map(fold_gain, (layer_set.output_norm, layer_set.norm, layer_set.inner_norm))
    gate = Rows(reads(other), own, centred) if gated else None
    return MatrixProduct(out, rows, layer_set.heads[path.reader].size, written, own, inner, centred, gate)


def tensors(layout: Layout, path: str, layer: int, recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the tensors that one branch reads, each once."""
    return _read_by(layout.sets(path)[layer], path, _with_gates(layout, path, layer, recipe))


def _read_by(sets: Sequence[LayerSet], path: str, recipe: Recipe) -> tuple[str, ...]:
    other = OTHER_READER.get(PATHS[path].reader, "")
    roles = (PATHS[path].roles, (other,) if recipe.gates and other else ())
    return tuple(dict.fromkeys(name for one in sets for some in roles for name in one.read_by(*some)))


def open_tensors(
    checkpoint: Checkpoint, names: Collection[str], by_rows: Collection[str], memory: Memory, share: Share
) -> Mapping[str, Matrix]:
    """Return tensors by name: stacks and those `by_rows` read themselves by parts, others use `memory` again."""
    checkpoint.wait(*names)
    opened = {name: checkpoint.experts(name) or (checkpoint.rows(name) if name in by_rows else None) for name in names}
    tensors: dict[str, Matrix] = {name: parts for name, parts in opened.items() if parts is not None}
    wanted = [name for name in opened if name not in tensors]
    memory.reuse(part.size for part in checkpoint.parts(wanted).values())

    def read(some: Iterator[str]) -> None:
        for name in some:
            tensors[name] = checkpoint.read(name, memory)

    share(read, wanted)
    return tensors


def _with_gates(layout: Layout, path: str, layer: int, recipe: Recipe) -> Recipe:
    other = OTHER_READER.get(PATHS[path].reader, "")  # no gates unless all sets of the layer have one
    return replace(recipe, gates=recipe.gates and all(other in one.slots for one in layout.sets(path)[layer]))


def read_by_rows(layout: Layout, path: str, layer: int) -> set[str]:
    """Return the names of the tensors of one branch that are read some rows at a time and never as a whole."""
    read = list[str]()
    for layer_set in layout.sets(path)[layer]:
        roles = [role for role in ("gate", "up") if role in layer_set.slots]
        read += [layer_set.slots[one].tensor for one in roles if layer_set.stacked or by_rows(layout, layer_set, one)]
    return set(read)
