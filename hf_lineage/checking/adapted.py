"""Adapted: which matrices of a base a LoRA adapter belongs to, by the registry's layout, and what to test of each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hf_lineage.architecture.fit import turned
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.lookup import Slot
from hf_lineage.architecture.matrix_sets import LayerSet
from hf_lineage.checking.opened import Opened
from hf_lineage.checkpoint.adapter import module_tensor
from hf_lineage.checkpoint.lora import Factors, Lora, finite
from hf_lineage.checkpoint.numbers import single
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.evidence.adapter_trace import Block, block, probed, product_rows
from hf_lineage.signature.matrices import Read, gain, reader, unpacked, writer
from hf_lineage.signature.recipe import Array

UNITS, DIMENSIONS, COORDINATES = "hidden units", "dimensions of value heads", "residual coordinates"
"""What the rows of adapted matrices are."""
MAKING = {"up": UNITS, "gate": UNITS, "value": DIMENSIONS}
"""Roles whose rows are written into the stream by another matrix of the same set."""
WRITING = ("output", "down")
"""Roles whose rows are residual coordinates."""
READERS = {"mlp": ("up", "gate"), "attention": ("query", "key", "value")}


class Product(NamedTuple):
    """What is added to one matrix."""

    rows: Array
    """(rows, q), with q = 0 where nothing is added."""
    size: float
    """The root mean square of its numbers."""


class Partner(NamedTuple):
    """The matrix of the base that a gradient passed through."""

    seen: Array
    """(g, k, n)"""
    usual: float
    """The root mean square of its numbers."""


Products = Mapping[str, Product]
"""By module."""


@dataclass(frozen=True)
class Place:
    """One adapted matrix: the module of the adapter, and where the base holds it."""

    module: str
    layer: int
    layer_set: LayerSet
    slot: Slot


@dataclass(frozen=True)
class Places:
    """Where a base holds the matrices of an adapter."""

    everything: tuple[Place, ...]
    """A module that holds several roles is here once for each."""
    absent: tuple[str, ...]
    """Modules that no tensor of the base is named like."""
    unfit: tuple[str, ...]
    """A phrase for each matrix whose shape is not that of the base."""


def find_places(base: Opened, lora: Lora) -> Places:
    """Return where a base holds the matrices that an adapter adapts, by names and shapes alone."""
    tensors = {module: module_tensor(module, base.checkpoint.tensors) for module in lora.modules}
    slots = _slots(base.layout)
    places, unfit = [], []
    for module, factors in lora.modules.items():
        tensor = tensors[module]
        if tensor is None:
            continue
        here = slots.get(tensor, [])
        is_turned = bool(here) and turned(base.layout.factorization, here[0][2])
        if problem := _unfit(factors, base.checkpoint.tensors[tensor].shape, is_turned, bool(here)):
            unfit.append(f"{module} {problem}")
        places += [Place(module, *place) for place in here]
    absent = tuple(module for module, tensor in tensors.items() if tensor is None)
    return Places(tuple(places), absent, tuple(unfit))


def _slots(layout: Layout) -> dict[str, list[tuple[int, LayerSet, Slot]]]:
    """By tensor, the layer, the set and the slot of every role that it holds."""
    slots: dict[str, list[tuple[int, LayerSet, Slot]]] = {}
    for sets in layout.branches.values():
        for layer, layer_sets in enumerate(sets):
            for layer_set in layer_sets:
                for slot in layer_set.slots.values():
                    slots.setdefault(slot.tensor, []).append((layer, layer_set, slot))
    return slots


def _unfit(factors: Factors, shape: tuple[int, ...], is_turned: bool, known: bool) -> str:
    """How a product differs from the matrix it is added to, as a phrase; empty if it fits."""
    expected = shape[::-1] if is_turned else shape
    mine = (factors.rows, factors.columns)
    # The orientation of a matrix outside the layers is not known.
    if mine == expected or (not known and mine == shape[::-1]) or len(shape) != 2:
        return ""
    return f"is {factors.rows} x {factors.columns} and not {' x '.join(map(str, expected))}"


def testable(places: Places, layout: Layout) -> tuple[Place, ...]:
    """Return the places whose rows may be permuted if the base is independent of the adapter."""
    return tuple(place for place in places.everything if not place.layer_set.stacked and _exchangeable(layout, place))


def _exchangeable(layout: Layout, place: Place) -> bool:
    if place.slot.role in WRITING:
        return layout.factorization.exchangeable and any(True for _ in _after(layout, place))
    return place.slot.role in MAKING and place.layer_set.slots.keys() >= {_writer(place)}


def _writer(place: Place) -> str:
    """The role that writes into the stream what a place makes."""
    return "output" if place.slot.role == "value" else "down"


def products(lora: Lora, places: Collection[Place]) -> Products:
    """Return by module what is added to it; CheckpointError for factors that are not finite."""
    added: dict[str, Product] = {}
    for module in dict.fromkeys(place.module for place in places):
        second, first = lora.read(module)
        if not finite(second, first):
            raise CheckpointError(f"the factors of {printable(module, 200)} are not finite; the adapter is damaged")
        added[module] = Product(product_rows(second, first), lora.modules[module].scale * typical(second, first))
    return added


def blocks(base: Opened, added: Products, places: Collection[Place]) -> Iterator[Block]:
    """Yield what is tested of each of these places; a product that is zero is left out.

    Raise CheckpointError for a base whose weights are not finite.
    """
    partners: dict[tuple[int, int, str], Partner] = {}
    for place in places:
        rows, size = added[place.module]
        if not rows.shape[1]:
            continue
        kind = MAKING.get(place.slot.role, COORDINATES)
        key = (place.layer, place.layer_set.expert, place.slot.role if kind == COORDINATES else kind)
        if key not in partners:
            partners[key] = _partner(base, place)
        seen, usual = partners[key]
        if not finite(seen):
            raise CheckpointError(f"weights in layer {place.layer} of {base.described.repo} are not finite")
        relative = size / usual if usual > 0 else np.inf
        yield block(place.slot.role, place.layer, kind, _grouped(rows, place, kind), seen, relative)


def _grouped(rows: Array, place: Place, kind: str) -> Array:
    """The rows of one role in their exchangeable groups (g, n, q)."""
    if kind == COORDINATES:
        return rows[None]
    mine = unpacked(rows, place.layer_set, place.slot)
    return mine.reshape(1, -1, rows.shape[1]) if kind == UNITS else mine


def _partner(base: Opened, place: Place) -> Partner:
    read, layout, layer_set = base.checkpoint.read, base.layout, place.layer_set
    if place.slot.role in WRITING:
        parts = [_reader(layout, layer_set, role, read) for layer_set, role in _after(layout, place)]
        return Partner(np.concatenate([part.seen for part in parts], axis=1), max(part.usual for part in parts))
    out = single(writer(layout, layer_set, _writer(place), read))
    seen = probed(_unit(out), _writer(place))
    if place.slot.role == "value":
        heads = layer_set.heads["value"]
        by_head = seen.reshape(len(seen), heads.count, -1, heads.size)
        return Partner(by_head.transpose(1, 2, 0, 3).reshape(heads.count, -1, heads.size), _root_mean_square(out))
    return Partner(seen[None], _root_mean_square(out))


def _reader(layout: Layout, layer_set: LayerSet, role: str, read: Read) -> Partner:
    """A matrix that reads the stream, the gain of its norm folded in, over its size and seen through probes."""
    plain = single(np.asarray(reader(layout, layer_set, role, read, gains=True)))
    rows = plain if layer_set.norm is None else plain * gain(layout, layer_set, layer_set.norm, read)
    return Partner(probed(_unit(rows), role)[None], _root_mean_square(plain))


def _after(layout: Layout, place: Place) -> Iterator[tuple[LayerSet, str]]:
    """The matrices that read what a place writes, of the next branches."""
    following = [("mlp", place.layer)] if place.slot.role == "output" else []
    following += [("attention", place.layer + 1)] if place.layer + 1 < layout.layers else []
    for branch, layer in following:
        sets = layout.branches[branch][layer]
        if len(sets) == 1 and not sets[0].stacked:
            yield from ((sets[0], role) for role in READERS[branch] if role in sets[0].slots)


def typical(second: Array, first: Array) -> float:
    """Return the root mean square of the numbers of a product B A, without making it."""
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    squares = max(float(np.sum((narrow.T @ narrow) * (wide @ wide.T))), 0.0)
    return math.sqrt(squares / (len(narrow) * wide.shape[1]))


def _root_mean_square(matrix: Array) -> float:
    return float(np.linalg.norm(matrix)) / math.sqrt(matrix.size)


def _unit(matrix: Array) -> Array:
    norm = float(np.linalg.norm(matrix))
    unit: Array = matrix / np.float32(norm) if norm > 0 else matrix
    return unit
