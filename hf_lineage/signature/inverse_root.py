"""Inverse root: G^(-1/2) of the products G of the columns of a matrix, as it makes an orthogonal factor of that matrix.

Of a narrow G all directions are computed. Of a wide one that takes minutes, most of which pass in waiting for memory.
There a basis is made in which G is a band of blocks (block Lanczos, each new block made orthogonal to all before), and

    G^(-1/2) = 2/π ∫ e^u (e^(2u) I + G)^(-1) du

is summed over equal steps of u (Hale, Higham and Trefethen 2008), which is right to 0.2 %, and to 3 % in the smallest
directions that count. Each step is a system of equations with a band of blocks. Directions in which there is next to
nothing are left out in either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
WIDE = 2048
"""Of more coordinates than this no directions are computed."""
BLOCK = 256
"""Coordinates of a block of the band."""
STEP, BELOW, ABOVE = 1.0, 3.0, 6.0
"""The step in u, and how far the sum goes beyond the smallest and the largest root that count: the further below, the
smaller the directions that are not left out."""


@dataclass(frozen=True)
class InverseRoot:
    """G^(-1/2), less the directions that are left out."""

    times: Callable[[Matrix], Matrix]
    """From columns (d, n) to its product with them."""
    rank: int
    """How many directions there are."""


def inverse_root(square: Matrix, least: float) -> InverseRoot:
    """Return G^(-1/2) of a positive G (d, d); directions whose root is below `least` of the largest are left out."""
    return _by_directions(square, least) if len(square) <= WIDE else _by_bands(square, least)


def _by_directions(square: Matrix, least: float) -> InverseRoot:
    squares, vectors = np.linalg.eigh(square)
    kept = squares > least**2 * squares[-1]
    directions, over = vectors[:, kept], 1 / np.sqrt(squares[kept])
    return InverseRoot(lambda columns: (directions * over) @ (directions.T @ columns), int(kept.sum()))


def _by_bands(square: Matrix, least: float) -> InverseRoot:
    basis, band = _banded(square)
    largest = band.largest
    if not largest > 0:
        return InverseRoot(np.zeros_like, 0)
    low, high = math.log(least) - BELOW, ABOVE
    steps = np.exp(np.linspace(low, high, math.ceil((high - low) / STEP) + 1))
    width = math.log(steps[1] / steps[0])

    def times(columns: Matrix) -> Matrix:
        inside = basis.T @ columns
        solved = (step * band.solved(inside, step**2 * largest) for step in steps)
        total = sum(solved, np.zeros_like(inside))
        done: Matrix = basis @ (total * (2 / math.pi * width * math.sqrt(largest)))
        return done

    return InverseRoot(times, len(square) - band.below(least**2 * largest))


@dataclass(frozen=True)
class _Band:
    """A symmetric matrix with blocks on its diagonal and below it."""

    diagonal: Sequence[Matrix]
    below_diagonal: Sequence[Matrix]
    """Of which the first one stands beside the first two blocks of the diagonal."""

    @property
    def largest(self) -> float:
        """About the largest eigenvalue: that of the first blocks, which the basis was made from."""
        if len(self.diagonal) == 1:
            return float(np.linalg.eigvalsh(self.diagonal[0])[-1])
        (first, second), beside = self.diagonal[:2], self.below_diagonal[0]
        return float(np.linalg.eigvalsh(np.block([[first, beside.T], [beside, second]]))[-1])

    def solved(self, columns: Matrix, shift: float) -> Matrix:
        """Return the solution of (T + shift I) X = columns, by elimination from the first block to the last."""
        passed: list[tuple[Matrix, Matrix]] = []
        start = 0
        for number, block in enumerate(self.diagonal):
            left, right = block + shift * np.eye(len(block)), columns[start : start + len(block)]
            if number:
                left = left - self.below_diagonal[number - 1] @ passed[-1][0]
                right = right - self.below_diagonal[number - 1] @ passed[-1][1]
            next_block = self.below_diagonal[number].T if number < len(self.below_diagonal) else right[:, :0]
            both = np.linalg.solve(left, np.concatenate([next_block, right], axis=1))
            passed.append((both[:, : next_block.shape[1]], both[:, next_block.shape[1] :]))
            start += len(block)
        solution = [passed.pop()[1]]
        while passed:
            beside, own = passed.pop()
            solution.append(own - beside @ solution[-1])
        return np.concatenate(solution[::-1])

    def below(self, bound: float) -> int:
        """Return how many eigenvalues lie below a bound: as many as pivots are negative (Sylvester's law)."""
        count, pivot = 0, np.zeros((0, 0))
        for number, block in enumerate(self.diagonal):
            beside = self.below_diagonal[number - 1] if number else np.zeros((len(block), 0))
            pivot = block - bound * np.eye(len(block)) - beside @ np.linalg.solve(pivot, beside.T)
            count += int((np.linalg.eigvalsh(pivot) < 0).sum())
        return count


def _banded(square: Matrix) -> tuple[Matrix, _Band]:
    """An orthonormal basis (d, d) in which a matrix is a band of blocks, and that band."""
    width = len(square)
    random = np.random.Generator(np.random.Philox(0))
    basis = np.empty((width, width), order="F")
    diagonal, below = [], []
    start, rest = 0, random.standard_normal((width, BLOCK))
    while start < width:
        size = min(BLOCK, width - start)
        mixed = rest if size == rest.shape[1] else rest @ random.standard_normal((rest.shape[1], size))
        block = _orthonormal(mixed, basis[:, :start], random)
        if start:
            below.append(block.T @ rest)
        basis[:, start : start + size] = block
        rest = square @ block
        diagonal.append(_symmetric(block.T @ rest))
        start += size
    return basis, _Band(diagonal, below)


def _orthonormal(columns: Matrix, basis: Matrix, random: np.random.Generator) -> Matrix:
    """Columns of length 1 orthogonal to each other and to a basis, that span these columns as far as they go beyond it.

    Where they do not, others take their place, so that a matrix with few directions has a basis as well.
    """
    for _ in range(3):
        columns = columns - basis @ (basis.T @ columns)
        sizes = np.linalg.norm(columns, axis=0)
        empty = sizes <= 1e-12 * max(sizes.max(), 1e-300)
        columns[:, empty] = random.standard_normal((len(columns), int(empty.sum())))
        columns = _factor(columns / np.linalg.norm(columns, axis=0))
    return columns


def _factor(columns: Matrix) -> Matrix:
    """Orthonormal columns that span these, of length 1: by Cholesky, several times as fast as Householder's way.

    It is repeated until it is exact; columns that depend on each other need the slower way.
    """
    square = columns.T @ columns
    try:
        return np.linalg.solve(np.linalg.cholesky(square), columns.T).T
    except np.linalg.LinAlgError:
        return np.linalg.qr(columns)[0]


def _symmetric(matrix: Matrix) -> Matrix:
    halved: Matrix = (matrix + matrix.T) / 2
    return halved
