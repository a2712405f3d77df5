"""Residual: the product M of a branch, capped, centred and multiplied with the probes.

Every hidden unit u adds out_u inn_uᵀ to M. A first pass over both matrices measures what each unit adds, since
the cap depends on the median of all units; a second pass over the writers multiplies.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature import matrix_product as arrays
from hf_lineage.signature.devices import Share
from hf_lineage.signature.matrix_product import UNITS, MatrixProduct, Probes, Scratch, Tensor, Tile, on_host
from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS, Array, Recipe, Vector
from hf_lineage.signature.recipe import ROWS as UNIT_ROWS
from hf_lineage.signature.values import UnitCodes

ROWS = 128  # residual coordinates of a writer that are multiplied at a time
Target = tuple[slice | Tensor, Sequence[Tensor], Tensor, bool]


@dataclass(frozen=True)
class UnitStatistics:
    """Measurements of the addend that every hidden unit of a term gives M; a Tensor stays on the device of the term."""

    projection: Tensor  # (h, k): inn Z
    corner: Tensor  # (h, m): inn[:, S], its mean not removed
    mean: Tensor  # (h,): the mean that centring subtracts from its column of the writer
    trace: Array  # (h,): its share of tr M
    total: Array  # (h,): its share of 1ᵀ M 1
    norm: Vector  # (h / part,): ‖C_g‖_F of every part C_g = out_g @ inn_g
    inner: NDArray[np.bool_]  # (h / part, signs): of random sums of its reader, or a head's product
    outer: NDArray[np.bool_]  # (h / part, signs): the same of its writer; no signs for heads
    gate: NDArray[np.bool_]  # (h / part, signs): the same of its gate; no signs where it has none

    @classmethod
    def empty(cls, term: MatrixProduct, probes: Probes) -> "UnitStatistics":
        """Return the units of a term with uninitialised values."""
        hidden, parts = len(term.reader), len(term.reader) // term.part
        _, columns = probes.shape
        size = len(probes.coordinates)
        inner, outer = (UNIT_SIGNS, UNIT_SIGNS) if term.part == 1 else (min(size, HEAD_COORDINATES) ** 2, 0)
        tensors = [arrays.empty(shape, term.writer) for shape in ((hidden, columns), (hidden, size), (hidden,))]
        numbers = [np.empty(hidden, np.float32), np.empty(hidden, np.float32), np.empty(parts)]
        signs = [np.empty((parts, count), np.bool_) for count in (inner, outer, UNIT_SIGNS if term.gate else 0)]
        values: list[Tensor] = [*tensors, *numbers, *signs]
        return cls(*values)

    def scale(self, factors: Vector) -> None:
        """Multiply every part by its own factor (h / part,); 0 gives 0, but the norm of what is not finite stays so."""
        per_unit = np.repeat(factors.astype(np.float32), len(self.trace) // len(factors))
        closed = np.flatnonzero(per_unit == 0).tolist()
        for value in (self.projection, self.corner):
            value *= arrays.as_kind_of(per_unit[:, None], value)
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
            units.projection[chosen] = probes.project(tile.inn)
            units.corner[chosen] = arrays.columns(tile.inn, probes.coordinates) + tile.means[1][:, None]
            units.mean[chosen] = tile.means[0]
            units.trace[chosen] = unit_dots(tile.out, tile.inn)
            units.total[chosen] = on_host((tile.out @ probes.ones) * (tile.inn @ probes.ones))
            if term.part > 1:  # heads
                units.norm[parts] = part_norms(tile.out, tile.inn, term.part)
            else:
                units.norm[parts] = arrays.row_norms(tile.inn) * arrays.row_norms(tile.out)
            _direct(units, parts, tile, probes)
            if tile.gate is not None:
                units.gate[parts] = on_host(arrays.columns(tile.gate, probes.coordinates) @ probes.signs > 0)

    def write(chosen: Iterator[slice]) -> None:
        # The signs of random sums of the writers of some hidden units, from a few rows of the writer.
        scratch = Scratch(len(probes.coordinates) * min(len(term.reader), UNITS), term.writer)
        for some in chosen:
            written = term.prepare_writer(probes.coordinates, some, units.mean[some], scratch)
            units.outer[some] = on_host(written.mT @ probes.signs > 0)

    share(note, term.starts)
    if units.outer.shape[1]:
        share(write, arrays.pieces(len(term.reader), UNITS))
    return units


def _direct(units: UnitStatistics, parts: slice, tile: Tile, probes: Probes) -> None:
    """Record the signs of a tile's parts: of random sums of their readers or, for heads, of products' entries."""
    coordinates = probes.coordinates
    if units.outer.shape[1]:
        sketched = 0 if isinstance(probes.matrix, slice) else min(probes.matrix.shape[1], UNIT_SIGNS // 2)
        units.inner[parts, :sketched] = on_host(units.projection[parts, :sketched] > 0)
        units.inner[parts, sketched:] = on_host(arrays.columns(tile.inn, coordinates) @ probes.signs[:, sketched:] > 0)
        return
    few = min(len(coordinates), HEAD_COORDINATES)
    count = parts.stop - parts.start
    both = (tile.out, coordinates[:few]), (tile.inn, coordinates[-few:])
    out, inn = (rows[:, some].reshape(-1, len(tile.inn) // count, few) for rows, some in both)
    units.inner[parts] = on_host(out.mT @ inn > 0).reshape(count, -1)


def unit_dots(out: Tensor, inn: Tensor) -> NDArray[np.float32]:
    """Return the inner product (t,) of every row of outᵀ with the same row of inn (t, width)."""
    if arrays.by_columns(out) == arrays.by_columns(inn):
        return on_host(arrays.dots(inn, out))
    # They are the diagonals of small square products: only these read unlike orders at full speed.
    blocks = (-1, math.gcd(len(inn), 8), inn.shape[1])
    squares = on_host(inn.reshape(blocks) @ out.reshape(blocks).mT)
    diagonals: NDArray[np.float32] = np.einsum("bii->bi", squares)
    return diagonals.ravel()


def part_norms(out: Tensor, inn: Tensor, part: int) -> Vector:
    """Return ‖C_g‖_F (t / part,) of every part of outᵀ and inn (t, width), by its two small Gram matrices."""
    # Each side is divided by its largest number first, so that no square leaves the range of float32.
    grams, sizes = [], []
    for rows in (out, inn):
        parts = rows.reshape(-1, part, rows.shape[1])
        size = arrays.largest(parts.reshape(len(parts), -1))
        scale = np.where(size > 0, size, 1).astype(np.float32)
        scaled = parts / arrays.as_kind_of(scale, rows)[:, None, None]
        grams.append(scaled @ scaled.mT)
        sizes.append(size)
    squares = on_host((grams[0] * grams[1]).sum(axis=(1, 2))).astype(np.float64)
    return np.sqrt(np.maximum(squares, 0)) * sizes[0] * sizes[1]


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: Array
    corner: Array
    trace: float
    norm: float
    units: UnitCodes


def summarise(branch: Iterable[MatrixProduct], probes: Probes, recipe: Recipe, share: Share) -> Block:
    """Return the block of one branch: its centred residual R multiplied with the probes, its corner, tr M and ‖M‖_F."""
    # R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    # The second pass needs no readers, so that their memory is free.
    measured = [
        (replace(term, reader=term.writer.mT, gate=None), measure_units(term, probes, share)) for term in branch
    ]
    if recipe.cap:
        cap([units for _, units in measured])
    codes = unit_codes([units for _, units in measured])
    product, corner = multiply(measured, probes, share)
    norm = float(np.linalg.norm(product.astype(np.float64)))
    trace = sum(float(units.trace.sum(dtype=np.float64)) for _, units in measured)
    total = sum(float(units.total.sum(dtype=np.float64)) for _, units in measured)
    ones = (total - trace) / (probes.width * (probes.width - 1)) if recipe.ones else 0.0
    identity = trace / probes.width - ones
    probes.centre(product, identity, ones)
    whole: list[NDArray[np.floating]] = [product, corner, *(units.norm for _, units in measured)]
    if not (math.isfinite(norm) and all(np.isfinite(value).all() for value in whole)):
        return Block(np.zeros_like(product), np.zeros_like(corner), math.nan, math.nan, codes)
    return Block(product, corner, trace, norm, codes)


def multiply(
    branch: Sequence[tuple[MatrixProduct, UnitStatistics]], probes: Probes, share: Share
) -> tuple[Array, Array]:
    """Return M Z (width, k), and M[S, S] (m, m) with its means: the second pass over the writers, by rows."""
    chosen = probes.coordinates
    product = arrays.zeros(probes.shape, chosen)
    corner = arrays.zeros((len(chosen), len(chosen)), chosen)
    projections = [units.projection for _, units in branch]
    # Rows of the writers, the factor for those of each term, what the sum is added to, and whether means are removed.
    targets: list[Target] = [(chosen, [units.corner for _, units in branch], corner, False)]
    targets += [(rows, projections, product[rows], True) for rows in arrays.pieces(probes.width, ROWS)]

    def write(targets: Iterator[Target]) -> None:
        scratch = Scratch(max(ROWS, len(chosen)) * UNITS, product)
        for rows, factors, total, centred in targets:
            for (term, units), through in zip(branch, factors, strict=True):
                for some in arrays.pieces(len(through), UNITS):
                    mean = units.mean[some] if centred else units.mean[some] * 0
                    total += term.prepare_writer(rows, some, mean, scratch) @ through[some]

    share(write, targets)
    return on_host(product), on_host(corner)


def cap(branch: Sequence[UnitStatistics]) -> None:
    """Scale every part above the median norm down to it; parts without weight do not count for the median."""
    # All parts then count about alike, so nobody can make units count more by scaling them: to outweigh the units of a
    # model, as many others have to be stored beside them.
    most = median_norm(np.concatenate([units.norm for units in branch]))
    for units in branch:
        units.scale(np.divide(most, units.norm, out=np.ones_like(units.norm), where=units.norm > most))


def median_norm(norms: Vector) -> float:
    """Return the lower median of those norms that are not zero; 0 where all are."""
    alive = np.sort(norms[norms > 0])
    return float(alive[(len(alive) - 1) // 2]) if len(alive) else 0.0


def unit_codes(branch: Sequence[UnitStatistics]) -> UnitCodes:
    """Return the weights and signs of the units of a branch for its signature; weights are shares of their sum."""
    weights = np.concatenate([units.norm for units in branch])
    total = weights.sum()
    shares = weights / total if 0 < total < math.inf else np.zeros_like(weights)
    signs = (np.concatenate([getattr(units, row) for units in branch]) for row in UNIT_ROWS)
    # Without an incomplete last byte: its padding would agree in any two units.
    packed = (np.packbits(rows[:, : len(rows.T) // 8 * 8], axis=1) for rows in signs)
    return UnitCodes(shares.astype(np.float32), *packed)
