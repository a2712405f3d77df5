"""Unit statistics: the size and the direction of the addend that every hidden unit or head of a term gives M."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.arrays import Scratch, Tensor, beside, by_columns, columns, dots, empty, largest, on_host
from hf_lineage.signature.devices import Share
from hf_lineage.signature.matrix_product import UNITS, MatrixProduct, Probes, Tile, pieces, row_norms
from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS, Array, Vector

BLOCK = 8
"""Hidden units whose inner products are read off one square product."""


@dataclass(frozen=True)
class UnitStatistics:
    """Measurements of the addend that every hidden unit of a term gives M.

    Tensors that are multiplied later stay on the device of the term; all others are arrays of NumPy.
    """

    seen: Tensor
    """(h, k): inn Z."""
    corner: Tensor
    """(h, m): inn[:, S], its mean not removed."""
    mean: Tensor
    """(h,): the mean that centring subtracts from its column of the writer."""
    trace: Array
    """(h,): its share of tr M."""
    total: Array
    """(h,): its share of 1ᵀ M 1."""
    norm: Vector
    """(h / part,): ‖C_g‖_F of every part C_g = out_g @ inn_g."""
    inner: NDArray[np.bool_]
    """(h / part, signs): whether random sums of its reader, or entries of a head's product, are positive."""
    outer: NDArray[np.bool_]
    """(h / part, signs): the same of its writer; no signs for heads."""
    gate: NDArray[np.bool_]
    """(h / part, signs): the same of its gate; no signs where it has none."""

    @classmethod
    def empty(cls, term: MatrixProduct, probes: Probes) -> UnitStatistics:
        """Return the units of a term with uninitialised values."""
        hidden, parts = len(term.reader), len(term.reader) // term.part
        _, columns = probes.shape
        size = len(probes.coordinates)
        inner, outer = (UNIT_SIGNS, UNIT_SIGNS) if term.part == 1 else (min(size, HEAD_COORDINATES) ** 2, 0)
        return cls(
            seen=empty((hidden, columns), term.writer),
            corner=empty((hidden, size), term.writer),
            mean=empty((hidden,), term.writer),
            trace=np.empty(hidden, np.float32),
            total=np.empty(hidden, np.float32),
            norm=np.empty(parts),
            inner=np.empty((parts, inner), np.bool_),
            outer=np.empty((parts, outer), np.bool_),
            gate=np.empty((parts, UNIT_SIGNS if term.gate else 0), np.bool_),
        )

    def scale(self, factors: Vector) -> None:
        """Multiply every part by its own factor (h / part,); 0 gives 0 even for a part too large for float32.

        Weights that are not finite cannot be scaled away: the norm stays not finite.
        """
        per_unit = np.repeat(factors.astype(np.float32), len(self.trace) // len(factors))
        closed = np.flatnonzero(per_unit == 0).tolist()
        for value in (self.seen, self.corner):
            value *= beside(per_unit[:, None], value)
            value[closed] = 0
        for share in (self.trace, self.total):
            share *= per_unit
            share[closed] = 0
        np.multiply(self.norm, abs(factors), out=self.norm)


def measure_units(term: MatrixProduct, probes: Probes, share: Share) -> UnitStatistics:
    """Return the statistics of every hidden unit of a term: the one pass over its reader, the first over its writer."""
    units = UnitStatistics.empty(term, probes)

    def note(starts: Iterator[int]) -> None:
        for tile in term.tiles(starts):
            chosen, parts = tile.units, slice(tile.units.start // term.part, tile.units.stop // term.part)
            units.seen[chosen] = probes.seen(tile.inn)
            units.corner[chosen] = columns(tile.inn, probes.coordinates) + tile.means[1][:, None]
            units.mean[chosen] = tile.means[0]
            units.trace[chosen] = unit_dots(tile.out, tile.inn)
            units.total[chosen] = on_host((tile.out @ probes.ones) * (tile.inn @ probes.ones))
            heads = term.part > 1
            norms = part_norms(tile.out, tile.inn, term.part) if heads else row_norms(tile.inn) * row_norms(tile.out)
            units.norm[parts] = norms
            _direct(units, parts, tile, probes)
            if tile.gate is not None:
                units.gate[parts] = on_host(columns(tile.gate, probes.coordinates) @ probes.signs > 0)

    def write(chosen: Iterator[slice]) -> None:
        """Record the signs of random sums of the writers of some hidden units, from a few rows of the writer."""
        scratch = Scratch(len(probes.coordinates) * min(len(term.reader), UNITS), term.writer)
        for some in chosen:
            written = term.written(probes.coordinates, some, units.mean[some], scratch)
            units.outer[some] = on_host(written.mT @ probes.signs > 0)

    share(note, term.starts)
    if units.outer.shape[1]:
        share(write, pieces(len(term.reader), UNITS))
    return units


def _direct(units: UnitStatistics, parts: slice, tile: Tile, probes: Probes) -> None:
    """Record the signs of a tile's parts: of random sums of their readers or, for heads, of products' entries."""
    coordinates = probes.coordinates
    if units.outer.shape[1]:
        sketched = min(probes.sketched, UNIT_SIGNS // 2)
        units.inner[parts, :sketched] = on_host(units.seen[parts, :sketched] > 0)
        units.inner[parts, sketched:] = on_host(columns(tile.inn, coordinates) @ probes.signs[:, sketched:] > 0)
        return
    few = min(len(coordinates), HEAD_COORDINATES)
    count = parts.stop - parts.start
    out, inn = (rows[:, some].reshape(-1, len(tile.inn) // count, few) for rows, some in (
        (tile.out, coordinates[:few]), (tile.inn, coordinates[-few:])
    ))  # fmt: skip
    units.inner[parts] = on_host(out.mT @ inn > 0).reshape(count, -1)


def unit_dots(out: Tensor, inn: Tensor) -> NDArray[np.float32]:
    """Return the inner product (t,) of every row of outᵀ with the same row of inn (t, width).

    If the two are stored in different orders, they are the diagonals of small square products, because only such
    products read both at full speed.
    """
    if by_columns(out) == by_columns(inn):
        return on_host(dots(inn, out))
    blocks = (-1, math.gcd(len(inn), BLOCK), inn.shape[1])
    squares = on_host(inn.reshape(blocks) @ out.reshape(blocks).mT)
    diagonals: NDArray[np.float32] = np.einsum("bii->bi", squares)
    return diagonals.ravel()


def part_norms(out: Tensor, inn: Tensor, part: int) -> Vector:
    """Return ‖C_g‖_F (t / part,) of every part of outᵀ and inn (t, width), by its two small Gram matrices.

    Each side is divided by its largest number first, so that no square leaves the range of float32.
    """
    grams, sizes = [], []
    for rows in (out, inn):
        parts = rows.reshape(-1, part, rows.shape[1])
        size = largest(parts.reshape(len(parts), -1))
        scale = np.where(size > 0, size, 1).astype(np.float32)
        scaled = parts / beside(scale, rows)[:, None, None]
        grams.append(scaled @ scaled.mT)
        sizes.append(size)
    squares = on_host((grams[0] * grams[1]).sum(axis=(1, 2))).astype(np.float64)
    return np.sqrt(np.maximum(squares, 0)) * sizes[0] * sizes[1]
