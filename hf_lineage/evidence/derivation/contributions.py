"""Shares: how much each of several parents gave to a merge, layer by layer, with intervals.

A merge combines the matrices of its parents, X = Σ w_p P_p. Random sums over the rows of a matrix that reads the stream
are linear in it, unlike the branch product, so that least squares on these sums give the weights, and shares are the
weights divided by their sum. A base from which differences are taken is a parent like any other: it keeps the share
that the others do not give, and loses what they give in excess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hf_lineage.evidence.derivation.combination import distance, jackknife, solved
from hf_lineage.signature import Array, Vector

ALIKE = 0.3
"""The least cosine of a layer with a parent's layer that it may come from; that of unrelated layers is near 0."""
LEAST = 0.02
"""The least share that counts as one, however narrow its interval."""
WIDEST = 0.25
"""If half the width of an interval is larger, the parent cannot be separated from the others."""
HARDLY = 0.01
"""Layers count less if the squared distance between the parents is less than this share of the usual one."""
OTHER_ORDER = "the hidden units of the model are not in the order of this parent's units, and a merge keeps that order"
PARTS = 8
"""Into how many parts the sums of a layer are divided; the scatter between them gives the interval."""
MOST_LEFT = 0.25
"""The largest remainder, relative to the distance between parents, if no base is known. With a larger one, what the
parents have in common would count as a share of each, although any descendant of their base has it."""


@dataclass(frozen=True)
class Readers:
    """Data to measure shares along one path: random sums over the readers of a parent and of the merge."""

    parent: Array
    """(L, g, k)"""
    merge: Array
    """(M, g, k)"""
    numbers: tuple[tuple[int, ...], tuple[int, ...]]
    """The numbers of these layers, (L,) of the parent and (M,) of the merge."""
    sampled: bool = False
    """Whether a sample of every layer was read: then only layers of the same number can be alike."""

    @property
    def cosines(self) -> Vector:
        """(L, M): of every layer of the parent with every layer of the merge."""
        sides = [side.reshape(len(side), -1).astype(np.float64) for side in (self.parent, self.merge)]
        norms = np.multiply.outer(*(np.linalg.norm(side, axis=1) for side in sides))
        cosines: Vector = np.divide(sides[0] @ sides[1].T, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.where(np.equal.outer(*self.numbers), cosines, 0.0) if self.sampled else cosines


@dataclass(frozen=True)
class Share:
    """What one parent gave to a merge along one path."""

    value: float
    low: float
    high: float
    """The share lies between `low` and `high` with probability 99 %."""
    layers: Mapping[int, tuple[float, float]]
    """Number of a layer of the merge -> this parent's share of it, and half the width of its interval."""
    detected: bool
    """Whether the layers that were read hold anything of this parent that the others do not explain."""

    @property
    def clear(self) -> bool:
        """Whether the share separates this parent from the others."""
        return self.high - self.low <= 2 * WIDEST


@dataclass(frozen=True)
class Shares:
    """The shares of all parents along one path."""

    parents: tuple[Share | str, ...]
    """In the order of the parents; a reason for a parent that cannot be separated, or whose layers are like none."""
    remainder: float
    """The size of what no combination of the parents explains, relative to the distance between them."""


@dataclass(frozen=True)
class Parent:
    """A declared parent of a merge: what it gave along every path, and what the merge declares about it."""

    shares: Mapping[str, Share] = field(default_factory=dict)
    """By path; empty where `reason` says why none was measured."""
    remainders: Mapping[str, float] = field(default_factory=dict)
    """By path what no combination of the parents explains, beside the distance between them."""
    declared: Mapping[str, float] = field(default_factory=dict)
    """By path the weight that the merge declares; empty where it declares none."""
    method: str = ""
    """The method by which the merge says it was made; empty if it does not say."""
    is_base: bool = False
    """Whether the merge takes differences from this parent, which then need not contribute anything itself."""
    reason: str = ""


@dataclass(frozen=True)
class _Layer:
    """One layer of a merge, and the layers of its parents that are most like it."""

    number: int
    active: tuple[int, ...]
    """The parents of which it may be a part."""
    grams: Vector
    """(PARTS, n + 1, n + 1): inner products of these n, and of the merge as the last one, by parts of the sums."""

    def without(self, part: int) -> _Layer:
        """Return the layer without one part of its sums."""
        return replace(self, grams=np.delete(self.grams, part, axis=0))


def shares_of(parents: Sequence[Readers], depth: int) -> Shares | str:
    """Return what each parent gave to a merge of so many layers, or the reason why that cannot be told."""
    if len({(parent.sampled, parent.parent.shape[1:], parent.merge.shape[1:]) for parent in parents}) > 1:
        return "a sample was read of one parent, and whole layers of another; --budget full measures both"
    layers = _alike(parents)
    if not any(layer.active for layer in layers):
        return OTHER_ORDER
    count = len(parents)
    value, dependent = _fitted(layers, count)
    parts = [_fitted([layer.without(part) for layer in layers], count)[0] for part in range(PARTS)]
    noise, between = jackknife(parts), np.zeros(count)
    if len(layers) > 2:
        others = [_fitted([*layers[:row], *layers[row + 1 :]], count)[0] for row in range(len(layers))]
        between = jackknife(others) * math.sqrt(max(0.0, 1 - len(layers) / depth))
    errors = np.hypot(noise, between)
    by_layer = {layer.number: _of_layer(layer, count) for layer in layers}

    def estimate(parent: int) -> Share | str:
        if not any(parent in layer.active for layer in layers):
            return OTHER_ORDER
        if parent in dependent:
            return "it equals another parent, or a combination of others"
        share, error = float(value[parent]), float(errors[parent])
        return Share(
            value=share,
            low=share - error,
            high=share + error,
            layers={number: (float(one[parent]), float(each[parent])) for number, (one, each) in by_layer.items()},
            detected=bool(max(LEAST, noise[parent]) < abs(share) and noise[parent] <= WIDEST),
        )

    return Shares(tuple(map(estimate, range(count))), _remainder(layers))


def _alike(parents: Sequence[Readers]) -> list[_Layer]:
    """The layers of a merge that were read for all parents, each with the most similar layer of every parent."""
    cosines = [parent.cosines for parent in parents]
    common = set.intersection(*({*parent.numbers[1]} for parent in parents))
    layers = []
    for number in sorted(common):
        columns = [parent.numbers[1].index(number) for parent in parents]
        rows = [int(cosine[:, column].argmax()) for cosine, column in zip(cosines, columns, strict=True)]
        near = [cosine[row, column] for cosine, row, column in zip(cosines, rows, columns, strict=True)]
        active = tuple(index for index, cosine in enumerate(near) if cosine >= ALIKE)
        sums = [parents[index].parent[rows[index]] for index in active] + [parents[0].merge[columns[0]]]
        matrix = np.stack([some.astype(np.float64) for some in sums])
        size = float(np.linalg.norm(matrix[-1]))
        if size > 0:
            layers.append(_Layer(number, active, _grams(matrix / size)))
    return _levelled(layers)


def _levelled(layers: Sequence[_Layer]) -> list[_Layer]:
    """Layers with equal weight: each divided by the distance between its parents, unless they hardly differ there."""
    distances = np.array([distance(layer.grams.sum(axis=0)[:-1, :-1]) for layer in layers])
    usual = float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    scales = np.maximum(distances, HARDLY * usual)
    return [replace(layer, grams=layer.grams / scale) for layer, scale in zip(layers, scales, strict=True)]


def _grams(sums: Vector) -> Vector:
    """The inner products of several (n, g, k) by parts of the g sums, (PARTS, n, n)."""
    parts = [part.reshape(len(sums), -1) for part in np.array_split(sums, PARTS, axis=1)]
    return np.stack([part @ part.T for part in parts])


def _fitted(layers: Sequence[_Layer], count: int) -> tuple[Vector, set[int]]:
    """The shares of all parents, and those that depend on others, over layers that count alike."""
    total, dependent = np.zeros(count), set[int]()
    fitted = 0
    for active in sorted({layer.active for layer in layers if layer.active}):
        alike = [layer for layer in layers if layer.active == active]
        gram = np.sum([layer.grams.sum(axis=0) for layer in alike], axis=0)
        weights, others = solved(gram)
        dependent |= {active[index] for index in others}
        total[list(active)] += len(alike) * weights / weights.sum()
        fitted += len(alike)
    return total / max(fitted, 1), dependent


def _remainder(layers: Sequence[_Layer]) -> float:
    """What no combination of the parents of each layer explains, beside the mean distance between these."""
    left, apart = 0.0, 0.0
    for gram in (layer.grams.sum(axis=0) for layer in layers if len(layer.active) > 1):
        residual = np.append(-solved(gram)[0], 1.0)
        left += max(0.0, float(residual @ gram @ residual))
        apart += distance(gram[:-1, :-1])
    return math.sqrt(left / apart) if apart > 0 else 0.0


def _of_layer(layer: _Layer, count: int) -> tuple[Vector, Vector]:
    """The shares of all parents in one layer, and half the widths of their intervals; nothing if none is like it."""
    parts = [_fitted([layer.without(part)], count)[0] for part in range(PARTS)]
    return _fitted([layer], count)[0], jackknife(parts)
