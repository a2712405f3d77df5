"""Arrays: operations that differ between NumPy and torch, and XᵀX of rows that come some at a time.

And its inverse root G^(-1/2), which makes the matrix orthogonal. That is never formed, because only its product with a
few columns is needed.

All other computation on weights is written once, with operators and methods that both have. Memory for pieces of a
stored matrix is used again for every piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.tensor import Memory, StoredRows, widen

Array = NDArray[np.float32]
Matrix = NDArray[np.float64]
TILE = 256  # rows of a square that are mirrored at a time


def sum_squares(blocks: Iterable[Array], width: int) -> Array:
    """Return the sum of XᵀX (width, width) over matrices X (n, width) of contiguous rows."""
    from scipy.linalg.blas import ssyrk  # a third of the start-up of a check, which mostly needs none

    square = np.zeros((width, width), np.float32, order="F")
    for rows in blocks:
        square = ssyrk(1.0, rows.T, beta=1.0, c=square, overwrite_c=True)
    mirror(square)
    return square


def mirror(square: Array) -> None:
    """Copy the numbers above the diagonal to their places below it."""
    for start in range(0, len(square), TILE):
        stop = start + TILE
        block = np.triu(square[start:stop, start:stop])
        square[start:stop, start:stop] = block + np.triu(block, 1).T
        square[stop:, start:stop] = square[start:stop, stop:].T


@dataclass(frozen=True)
class WhiteningMatrix:
    """G^(-1/2) without the directions that are left out."""

    directions: Matrix  # (d, r): directions of length 1
    over: Matrix  # (r,): one over the square root of G along each direction

    @property
    def rank(self) -> int:
        """The number of directions r."""
        return len(self.over)

    def times(self, columns: Matrix) -> Matrix:
        """Return its product with columns (d, n)."""
        return np.asarray((self.directions * self.over) @ (self.directions.T @ columns))


def compute_whitening(square: Matrix, least: float) -> WhiteningMatrix:
    """Return G^(-1/2) of a positive G (d, d); directions whose root is below `least` of the largest are left out."""
    squares, directions = np.linalg.eigh(square)
    mask = squares > max(least**2 * squares[-1], 0.0)
    return WhiteningMatrix(directions[:, mask], 1 / np.sqrt(squares[mask]))


Tensor: TypeAlias = Any  # an array of NumPy, or a tensor of torch on a GPU


def on_host(array: Tensor) -> NDArray[Any]:
    """Return a NumPy array with these values; a NumPy array is returned as it is."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def as_kind_of(array: NDArray[Any], other: Tensor) -> Tensor:
    """Return these values as an array of the kind of `other`, on its device."""
    if isinstance(other, np.ndarray):
        return array
    import torch

    return torch.from_numpy(array).to(other.device)


def on_device(array: NDArray[Any], device: int | str) -> Tensor:
    """Return these values on a device: `cpu` is NumPy's, any other name or number is torch's."""
    if device == "cpu":
        return array
    import torch

    # torch warns of what cannot be written, such as heads that are shared.
    stored = np.require(array, requirements=("C", "W"))
    numbers = torch.from_numpy(stored.reshape(-1).view(np.uint8)).view(getattr(torch, array.dtype.name))
    tensor = numbers.view(array.shape)
    place = torch.device(device)
    return tensor.pin_memory().to(place, non_blocking=True) if place.type == "cuda" else tensor.to(place)


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return an uninitialised array in float32 of the kind of `like`, on its device."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.float32)
    import torch

    return like.new_empty(shape, dtype=torch.float32)


def zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return zeros in float32 of the kind of `like`, on its device."""
    made = empty(shape, like)
    made[...] = 0
    return made


def fill(target: Tensor, stored: Tensor) -> None:
    """Write stored numbers into an array in float32 of the same shape."""
    if isinstance(target, np.ndarray):
        widen(target, stored)
    else:
        target.copy_(stored.contiguous())


def by_columns(matrix: Tensor) -> bool:
    """Return whether the numbers of a column lie side by side in memory, and those of a row do not."""
    if isinstance(matrix, np.ndarray):
        return matrix.strides[-1] != matrix.itemsize and matrix.strides[0] == matrix.itemsize
    return bool(matrix.stride(-1) != 1 and matrix.stride(0) == 1)


def dots(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of every row of one matrix with the same row of another, (t,)."""
    if not isinstance(one, np.ndarray):
        return (one * other).sum(axis=1)
    if by_columns(one) and by_columns(other):
        return np.ones(one.shape[1], np.float32) @ (one.mT * other.mT)
    return np.vecdot(one, other)


def columns(rows: Tensor, chosen: Tensor) -> Tensor:
    """Return some columns (m,) of rows (t, width), (t, m)."""
    if not isinstance(rows, np.ndarray):
        return rows.index_select(1, chosen)
    return rows.mT.take(chosen, axis=0).mT if by_columns(rows) else rows.take(chosen, axis=1)


def largest(rows: Tensor) -> NDArray[np.float64]:
    """Return the largest absolute value in every row (t,), as a NumPy array."""
    sizes = abs(rows)
    most = sizes.max(axis=1) if isinstance(sizes, np.ndarray) else sizes.amax(dim=1)
    return on_host(most).astype(np.float64)


class Scratch:
    """Memory for pieces of a stored matrix in float32, at most `size` numbers each, used again for every piece."""

    def __init__(self, size: int, like: Tensor | StoredRows) -> None:
        self._memory = empty((size,), np.empty(0) if isinstance(like, StoredRows) else like)
        self._read = Memory()

    def rows(self, matrix: Tensor | StoredRows, chosen: slice) -> Tensor:
        """Return some rows of a matrix as float32."""
        return self.widen(matrix.read(chosen, self._read) if isinstance(matrix, StoredRows) else matrix[chosen])

    def widen(self, stored: Tensor) -> Tensor:
        """Return a piece (r, c) as float32, in the order in which it is stored: transposing it would cost far more."""
        if by_columns(stored):
            return self.widen(stored.mT).mT
        rows, width = stored.shape
        wide = self._memory[: rows * width].reshape(rows, width)
        fill(wide, stored)
        return wide
