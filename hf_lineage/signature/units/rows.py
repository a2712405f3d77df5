"""Unit rows: the hidden units of some layers as rows in coordinates that another model has as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.recipe import Array, Vector

PATH, HEADS = "mlp", "value_output"
"""The path whose hidden units are compared, and the one whose heads are."""


class HeadProducts(NamedTuple):
    """The products of the heads of one layer."""

    directions: Array
    """(n, s s): the product of the matrices of each head, of length 1."""
    weight: Vector
    """(n,): the norm of that product in the whole stream, at most the median of the layer."""


@dataclass(frozen=True)
class UnitRows:
    """The hidden units of one layer, in the order in which they are stored."""

    inner: Array
    """(u, s): what each unit reads, over the norm of all that it reads, the part outside these coordinates included."""
    outer: Array
    """(u, s): what each unit writes, likewise."""
    gate: Array
    """(u, s): the other reader of gated units, likewise; (u, 0) of units without a gate."""
    weight: Vector
    """(u,): ‖w_out,u‖ ‖w_in,u‖, at most the median of the layer."""
    sizes: Vector
    """(2, u): the norms of the readers and of the writers of the units."""
    experts: tuple[int, ...] = ()
    """The number of units of each expert, one after the other; empty where there are no experts."""
    kept: float = 1.0
    """These units as a share of the layer's units."""

    def select(self, units: NDArray[np.int64] | slice) -> UnitRows:
        """Return some of the units."""
        parts = (self.inner[units], self.outer[units], self.gate[units], self.weight[units], self.sizes[:, units])
        return UnitRows(*parts)

    @property
    def by_expert(self) -> tuple[slice, ...]:
        """The units of each expert; one slice with all units where there are no experts."""
        ends = accumulate(self.experts or (len(self.weight),), initial=0)
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    @property
    def finite(self) -> bool:
        """Whether all numbers of the units are finite."""
        numbers = (self.inner, self.outer, self.gate, self.weight, self.sizes)
        return all(bool(np.isfinite(part).all()) for part in numbers)


Layers = Mapping[int, UnitRows]
"""Number of a layer -> its hidden units."""


def cosines(a: UnitRows, b: UnitRows) -> Array:
    """Return for every unit of A and every unit of B the cosine of what they read times that of what they write."""
    products: Array = (a.inner @ b.inner.T) * (a.outer @ b.outer.T)
    return products


def likeness(a: UnitRows, b: UnitRows) -> Array:
    """Return the likeness of every unit of A and every unit of B, between -1 and 1.

    Without gates it is the cosine of what they read times the cosine of what they write. With gates it is that product
    times the cosine of their gates, to the power of 2/3: three cosines then count as much as two.
    Reader and writer may both change their sign, so only the sign of their product counts. Opposite gates have nothing
    in common, nor do a unit with a gate and one without.
    """
    products = cosines(a, b)
    if not a.gate.shape[1] and not b.gate.shape[1]:
        return products
    if a.gate.shape[1] != b.gate.shape[1]:
        return np.zeros_like(products)
    products *= np.maximum(a.gate @ b.gate.T, 0)
    return np.cbrt(products, out=products) ** 2 * np.sign(products)
