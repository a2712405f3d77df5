"""Hidden units as two models might show them, in coordinates that both share."""

from dataclasses import replace

import numpy as np

from hf_lineage.evidence.unit_comparison import TOKEN, Coordinates, OrderSettings, compare_units
from hf_lineage.signature.unit_rows import UnitRows

UNITS, SEEN, LAYERS = 96, 48, 4


def rows(seed, units=UNITS, seen=SEEN):
    """The units of one layer of a model of its own."""
    random = np.random.default_rng(seed)
    inner, outer = (random.standard_normal((units, seen)).astype(np.float32) for _ in range(2))
    sizes = random.uniform(0.5, 2, (2, units))
    gate = np.zeros((units, 0), np.float32)
    return UnitRows(unit(inner), unit(outer), gate, sizes.prod(axis=0), sizes)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def model(seed, layers=LAYERS, **shape):
    return {number: rows(1000 * seed + number, **shape) for number in range(layers)}


def changed(layers, change):
    return {number: change(layer, np.random.default_rng(number)) for number, layer in layers.items()}


def moved(layer, random, noise=0.5):
    """What further training leaves of a layer: every unit turned a little."""
    inner, outer = (
        unit(side + noise * random.standard_normal(side.shape).astype(np.float32) / side.shape[1] ** 0.5)
        for side in (layer.inner, layer.outer)
    )
    return replace(layer, inner=inner, outer=outer)


def shuffled(layer, random):
    return layer.select(random.permutation(len(layer.weight)))


def beside(layer, other, times=1.0):
    """A layer with the units of another behind its own, which write so many times as much."""
    parts = (np.concatenate([getattr(layer, side), getattr(other, side)]) for side in ("inner", "outer", "gate"))
    weight = np.concatenate([layer.weight, times * other.weight])
    sizes = np.concatenate([layer.sizes, other.sizes * np.array([[1.0], [times]])], axis=1)
    return UnitRows(*parts, weight, sizes)


def opposite(layer):
    return replace(layer, outer=-layer.outer)


def compared(base, candidate, first=199, frame=None, **test):
    """What two models show unit by unit."""
    return compare_units(
        base, candidate, len(candidate), frame or Coordinates(TOKEN, 256, "number"), OrderSettings(first, 0, **test)
    )
