"""Blend: the matrices of a model beside those of several parents, read one layer after the other.

No more than one matrix of the model and of each parent is in memory; of large matrices some rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hf_lineage.architecture import LayerSet
from hf_lineage.architecture.registry import Slot
from hf_lineage.checking.relation.matrices import UNSEEN, digits_of, matrix, rows_of
from hf_lineage.checking.source import FromWeights
from hf_lineage.evidence.derivation import (
    DIGITS,
    Matrix,
    Products,
    Stored,
    find_grid,
    inner_products,
    shortest,
    spacing,
)
from hf_lineage.signature.extraction import Sample

ALIKE = 0.3
"""The least cosine of a matrix with that of a parent of which it may be a part; of unrelated ones it is near 0."""
GLANCE = 16
"""Rows of a matrix by which the layer of a parent is found that a layer of the model is most like."""


def read_matrices(
    parents: Sequence[FromWeights], model: FromWeights, layers: Sequence[int], sample: Sample, sampled: bool
) -> list[Products]:
    """Return the matrices of these layers of a model beside those of its parents.

    `sampled` says that of the layers no more than a sample is on this disk, so that only layers of one number can be
    compared.
    """
    places = [_places(parent, model, layers, sampled) for parent in parents]
    return [one for layer in layers for one in _layer(parents, model, layer, places, sample, sampled)]


def _places(parent: FromWeights, model: FromWeights, layers: Sequence[int], sampled: bool) -> Mapping[int, int]:
    """Return for each layer of the model the layer of a parent that it is most like."""
    count = parent.opened.layout.layers
    if sampled:
        return {layer: layer for layer in layers if layer < count}
    seen = {number: rows for number in range(count) if (rows := _glance(parent, number)) is not None}
    places = {}
    for layer in layers:
        own = _glance(model, layer)
        cosines = {number: _cosine(rows, own) for number, rows in seen.items() if own is not None}
        if cosines:
            nearest = max(cosines, key=lambda number: (cosines[number], number == layer))
            places[layer] = nearest if cosines[nearest] >= ALIKE else layer
    return places


def _glance(model: FromWeights, layer: int) -> Matrix | None:
    """Return a few rows of the first matrix of a layer; None of one that has no branch."""
    layout = model.opened.layout
    for branch in layout.branches:
        if sets := layout.branches[branch][layer]:
            slot = next(iter(sets[0].slots.values()))
            return matrix(model, slot, (slice(0, GLANCE),))[:GLANCE]
    return None


def _layer(
    parents: Sequence[FromWeights],
    model: FromWeights,
    layer: int,
    places: Sequence[Mapping[int, int]],
    sample: Sample,
    sampled: bool,
) -> Iterator[Products]:
    """Yield the matrices of one layer of the model beside those of its parents."""
    for branch, sets in model.opened.layout.branches.items():
        if not sets[layer]:
            continue
        others = [_set(parent, branch, place.get(layer)) for parent, place in zip(parents, places, strict=True)]
        seen = set[str]()
        for role, slot in sets[layer][0].slots.items():
            if slot.tensor in seen or (sampled and role in UNSEEN) or not _readable(model, slot, sampled):
                continue
            seen.add(slot.tensor)
            rows = rows_of(model, role, sets[layer][0], layer, sample, sampled)
            numbers, alike = matrix(model, slot, rows), []
            for number, (parent, other) in enumerate(zip(parents, others, strict=True)):
                same = other.slots.get(role) if other else None
                if same and same.roles == slot.roles and _fits(parent, same, model, slot, sampled):
                    other_numbers = matrix(parent, same, rows)
                    if _cosine(other_numbers, numbers) >= ALIKE:
                        alike.append((number, Stored(other_numbers)))
            one = inner_products(layer, branch, alike, _stored(model, slot, numbers)) if alike else None
            if one is not None:
                yield one


def _set(parent: FromWeights, branch: str, layer: int | None) -> LayerSet | None:
    layers = parent.opened.layout.branches.get(branch, ())
    return layers[layer][0] if layer is not None and layer < len(layers) and layers[layer] else None


def _readable(model: FromWeights, slot: Slot, sampled: bool) -> bool:
    checkpoint = model.opened.checkpoint
    return checkpoint.rows(slot.tensor) is not None if sampled else checkpoint.at_hand(slot.tensor)


def _fits(parent: FromWeights, slot: Slot, model: FromWeights, own: Slot, sampled: bool) -> bool:
    shapes = [one.opened.checkpoint.tensors[it.tensor].shape for one, it in ((parent, slot), (model, own))]
    return shapes[0] == shapes[1] and _readable(parent, slot, sampled)


def _stored(model: FromWeights, slot: Slot, numbers: Matrix) -> Stored:
    """Return a matrix of the model with the spacing of its format, and of the quantization on whose grid it lies."""
    checkpoint = model.opened.checkpoint
    decoded = slot.tensor in checkpoint.decoded
    digits = shortest(numbers, digits_of(checkpoint, slot.tensor))
    grid = find_grid(numbers, DIGITS["F32"] if decoded else digits)
    return Stored(
        numbers,
        0 if decoded or grid else digits,
        None if decoded else spacing(numbers, digits),
        grid.step if grid else None,
    )


def _cosine(one: Matrix, other: Matrix) -> float:
    if one.shape != other.shape:
        return 0.0
    sizes = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.vdot(one, other)) / sizes if sizes > 0 else 0.0
