"""Probes: the matrix that a branch product is multiplied with, and the coordinates of the permutation test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hf_lineage.signature.computing import CPU, Device, Tensor, on_device, on_host
from hf_lineage.signature.recipe import Array, Recipe


@dataclass(frozen=True)
class Probes:
    """The probes of a recipe, on one device.

    Z (width, k), or some columns of the identity; S (m,); and signs (m, UNIT_SIGNS) for the rows of hidden units.
    """

    width: int
    """The width of the stream."""
    matrix: Tensor | slice
    coordinates: Tensor
    signs: Tensor
    ones: Tensor
    """(width,): ones."""

    @classmethod
    def draw(
        cls, recipe: Recipe, width: int, device: Device = CPU, columns: slice = slice(None), most: int | None = None
    ) -> Probes:
        """Return a recipe's probes on a device; in exact mode those columns of the identity. S has at most `most`."""
        matrix, coordinates = recipe.probe_matrix(width), recipe.test_coordinates(width, most)
        return cls(
            width,
            columns if matrix is None else on_device(matrix, device),
            on_device(coordinates, device),
            on_device(recipe.unit_signs(len(coordinates)), device),
            on_device(np.ones(width, np.float32), device),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k) of Z."""
        if isinstance(self.matrix, slice):
            return self.width, len(range(self.width)[self.matrix])
        return self.width, self.matrix.shape[1]

    @property
    def sketched(self) -> int:
        """K where Z is made of random signs, 0 where it is a part of the identity."""
        return 0 if isinstance(self.matrix, slice) else self.matrix.shape[1]

    def seen(self, rows: Tensor) -> Tensor:
        """Return rows (t, width) @ Z, (t, k)."""
        return rows[:, self.matrix] if isinstance(self.matrix, slice) else rows @ self.matrix

    def centre(self, product: Array, identity: float, ones: float) -> None:
        """Take (identity I + ones 11ᵀ) Z off a product (width, k), in place."""
        if isinstance(self.matrix, slice):
            diagonal(product[self.matrix])[:] -= identity
            product -= ones
            return
        matrix = on_host(self.matrix)
        product -= identity * matrix + ones * matrix.sum(axis=0)


def diagonal(matrix: Array) -> Array:
    """Return the diagonal of a matrix as a view that can be written."""
    diagonal: Array = np.einsum("ii->i", matrix[: len(matrix.T), : len(matrix)])
    return diagonal
