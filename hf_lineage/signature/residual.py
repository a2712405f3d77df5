"""Residual: the product M of a branch, capped, centred and multiplied with the probes.

Every hidden unit u adds out_u inn_uᵀ to M. A first pass over both matrices measures what each unit adds, since
the cap depends on the median of all units; a second pass over the writers multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.arrays import Scratch, Tensor, on_host, zeros
from hf_lineage.signature.devices import Share
from hf_lineage.signature.matrix_product import UNITS, MatrixProduct, Probes, pieces
from hf_lineage.signature.recipe import ROWS as UNIT_ROWS
from hf_lineage.signature.recipe import Array, Recipe, Vector
from hf_lineage.signature.unit_norms import UnitStatistics, measure_units
from hf_lineage.signature.values import UnitCodes

ROWS = 128
"""Residual coordinates of a writer that are multiplied at a time."""


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: Array
    corner: Array
    trace: float
    norm: float
    units: UnitCodes


def summarise(branch: Iterable[MatrixProduct], probes: Probes, recipe: Recipe, share: Share) -> Block:
    """Return the block of one branch: its centred residual R multiplied with the probes, its corner, tr M and ‖M‖_F.

    R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    """
    measured = [(term.writer_alone(), measure_units(term, probes, share)) for term in branch]
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


Target = tuple[slice | Tensor, Sequence[Tensor], Tensor, bool]
"""Some rows of the writers, the factor for the rows of each term, and the product that the sum is added to.

Then whether the mean of the writer is removed."""


def multiply(
    branch: Sequence[tuple[MatrixProduct, UnitStatistics]], probes: Probes, share: Share
) -> tuple[Array, Array]:
    """Return M Z (width, k), and M[S, S] (m, m) with its means: the second pass over the writers, by rows."""
    chosen = probes.coordinates
    product = zeros(probes.shape, chosen)
    corner = zeros((len(chosen), len(chosen)), chosen)
    seen = [units.seen for _, units in branch]
    targets: list[Target] = [(chosen, [units.corner for _, units in branch], corner, False)]
    targets += [(rows, seen, product[rows], True) for rows in pieces(probes.width, ROWS)]

    def write(targets: Iterator[Target]) -> None:
        scratch = Scratch(max(ROWS, len(chosen)) * UNITS, product)
        for rows, factors, total, centred in targets:
            for (term, units), through in zip(branch, factors, strict=True):
                for some in pieces(len(through), UNITS):
                    mean = units.mean[some] if centred else units.mean[some] * 0
                    total += term.written(rows, some, mean, scratch) @ through[some]

    share(write, targets)
    return on_host(product), on_host(corner)


def cap(branch: Sequence[UnitStatistics]) -> None:
    """Scale every part above the median norm down to it; parts without weight do not count for the median.

    All parts then count about alike, so nobody can make units count more by scaling them: to outweigh the units of a
    model, as many others have to be stored beside them.
    """
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
    rows = (_packed([getattr(units, row) for units in branch]) for row in UNIT_ROWS)
    return UnitCodes(shares.astype(np.float32), *rows)


def _packed(signs: Sequence[NDArray[np.bool_]]) -> NDArray[np.uint8]:
    """Return signs (u, n) as bytes; an incomplete last byte is left out: its padding would agree in any two units."""
    rows = np.concatenate(signs)
    return np.packbits(rows[:, : len(rows.T) // 8 * 8], axis=1)
