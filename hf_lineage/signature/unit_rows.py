"""Unit rows: the hidden units of some layers as rows in coordinates that another model has as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.recipe import Array, Vector


@dataclass(frozen=True)
class UnitRows:
    """The hidden units of one layer, in the order in which they are stored."""

    inner: Array
    """(u, s): what each unit reads, over the norm of all that it reads, the part outside these coordinates included."""
    outer: Array
    """(u, s): what each unit writes, likewise."""
    weight: Vector
    """(u,): n_u = |a_u| ‖w_out,u‖ ‖w_in,u‖, what it adds to the branch before any cap."""
    sizes: Vector
    """(2, u): the norms of what it reads and of what it writes, which tell whether units were sorted."""
    writes: float
    """What the layer writes."""

    def of(self, units: NDArray[np.int64] | slice) -> UnitRows:
        """Return some of the units."""
        parts = (self.inner[units], self.outer[units], self.weight[units], self.sizes[:, units])
        return UnitRows(*parts, self.writes)

    def unseen(self) -> UnitRows:
        """Return what the units weigh, without their rows."""
        return replace(self, inner=self.inner[:, :0].copy(), outer=self.outer[:, :0].copy())

    def normalised(self) -> UnitRows:
        """Return the units with rows of length 1, those of zeros as they are."""
        sides = ((rows, np.linalg.norm(rows, axis=1, keepdims=True)) for rows in (self.inner, self.outer))
        inner, outer = (np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0) for rows, norms in sides)
        return replace(self, inner=inner, outer=outer)

    @property
    def finite(self) -> bool:
        """Whether all of it is finite."""
        numbers = (self.inner, self.outer, self.weight, self.sizes, np.array(self.writes))
        return all(bool(np.isfinite(part).all()) for part in numbers)


Layers = Mapping[int, UnitRows]
"""By the number of a layer."""


def cosines(a: UnitRows, b: UnitRows) -> Array:
    """Return for every unit of A and every unit of B the cosine of what they read times that of what they write."""
    products: Array = (a.inner @ b.inner.T) * (a.outer @ b.outer.T)
    return products
