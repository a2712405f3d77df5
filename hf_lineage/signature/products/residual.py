"""Residual: the product M of a branch, capped, centred and multiplied with the probes.

Every hidden unit u adds out_u inn_uᵀ to M. A first pass over both matrices measures what each unit adds, since
the cap depends on the median of all units; a second pass over the writers multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.computing import Scratch, Share, Tensor, on_host, zeros
from hf_lineage.signature.products.matrix_product import UNITS, MatrixProduct, pieces
from hf_lineage.signature.products.probes import Probes, diagonal
from hf_lineage.signature.products.unit_statistics import UnitStatistics, measure_units
from hf_lineage.signature.recipe import ROWS as UNIT_ROWS
from hf_lineage.signature.recipe import Array, Recipe, Vector
from hf_lineage.signature.values import UnitCodes

ROWS = 128
"""Residual coordinates of a writer that are multiplied at a time."""
NORM_EPSILON = 1e-6
"""The ε that norms commonly add to a mean square before they divide by its root."""


MeasuredBranch = Sequence[tuple[MatrixProduct, UnitStatistics]]
"""The terms of a branch, each with the measurements of its units."""


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: Array
    corner: Array
    trace: float
    norm: float
    writes: float
    units: UnitCodes


def summarise(branch: Iterable[MatrixProduct], probes: Probes, recipe: Recipe, share: Share) -> Block:
    """Return what the signature holds of one branch: its centred residual R multiplied with the probes, tr M and ‖M‖_F.

    R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    """
    measured = [(term, measure_units(term, probes, share)) for term in branch]
    weights = np.concatenate([units.norm for _, units in measured])
    codes = unit_codes([units for _, units in measured])
    if recipe.cap is not None:
        cap([units for _, units in measured], recipe.cap, recipe.cap_median)
    product, corner = multiply(measured, probes, share)
    norm = float(np.linalg.norm(product.astype(np.float64)))
    trace = sum(float(units.trace.sum(dtype=np.float64)) for _, units in measured)
    total = sum(float(units.total.sum(dtype=np.float64)) for _, units in measured)
    ones = (total - trace) / (probes.width * (probes.width - 1)) if recipe.ones and probes.frame.ones else 0.0
    identity = trace / probes.width - ones
    probes.centre(product, identity, ones)
    writes = written(measured, float(np.linalg.norm(weights)), norm)
    if not all(np.isfinite(value).all() for value in (product, corner, norm, writes)):
        nothing = np.zeros_like(product), np.zeros_like(corner)
        return Block(*nothing, math.nan, math.nan, math.nan, codes)
    return Block(product, corner, trace, norm, writes, codes)


def written(branch: MeasuredBranch, total: float, norm: float) -> float:
    """Return how much a branch writes: the norm of what its units write or, if a norm follows, the size of its output.

    A norm removes the size of its input, if that is above the square root of its ε; ‖M‖_F / ‖γ‖ is about that size.
    """
    gains = [term.writer_gain for term, _ in branch if term.normed and term.writer_gain is not None]
    size = float(np.linalg.norm(on_host(gains[0]).astype(np.float64))) if gains else 0.0
    if not gains or size == 0:
        return total if not gains else 0.0
    given = norm / size
    return size * given / math.hypot(given, math.sqrt(NORM_EPSILON))


class _Target(NamedTuple):
    """Some rows of the writers, the factor for the rows of each term, and where the sum is added."""

    rows: slice | Tensor
    seen: tuple[Tensor, ...]
    product: Tensor
    centred: bool = True
    """Whether the mean of the writer is removed."""


def multiply(branch: MeasuredBranch, probes: Probes, share: Share) -> tuple[Array, Array]:
    """Return M Z (width, k), and M[S, S] (m, m) with its means: the second pass over the writers, by rows."""
    chosen = probes.coordinates
    product = zeros(probes.shape, chosen)
    corner = zeros((len(chosen), len(chosen)), chosen)
    seen = tuple(units.seen for _, units in branch)
    targets = [_Target(chosen, tuple(units.corner for _, units in branch), corner, centred=False)]
    targets += [_Target(rows, seen, product[rows]) for rows in pieces(probes.width, ROWS)]

    def write(targets: Iterator[_Target]) -> None:
        scratch = Scratch(max(ROWS, len(chosen)) * UNITS, product)
        for target in targets:
            for (term, units), through in zip(branch, target.seen, strict=True):
                for some in pieces(len(through), UNITS):
                    mean = units.mean[some] if target.centred else units.mean[some] * 0
                    writer = probes.written(term, target.rows, some, mean, scratch)
                    total = target.product
                    total += writer @ through[some]

    share(write, targets)
    return on_host(product), on_host(corner)


def cap(branch: Sequence[UnitStatistics], limit: float, median: Literal["units", "norm"]) -> None:
    """Scale every part above `limit` times the median norm down to that; dead parts do not count for the median.

    The median of the norm is the size up to which parts make up half of all they add together: parts that add little
    cannot move it, however many there are.
    """
    norms = np.concatenate([units.norm for units in branch])
    alive = np.sort(norms[norms > 0])
    most = limit * alive[_middle(alive, median)] if len(alive) else 0.0
    for units in branch:
        units.scale(np.divide(most, units.norm, out=np.ones_like(units.norm), where=units.norm > most))


def _middle(alive: Vector, median: Literal["units", "norm"]) -> int:
    """The place of the median among the sorted norms of parts that are not dead."""
    if median == "units":
        return (len(alive) - 1) // 2
    half = np.cumsum(alive)
    return min(int(np.searchsorted(half, half[-1] / 2)), len(alive) - 1)


def unit_codes(branch: Sequence[UnitStatistics]) -> UnitCodes:
    """Return what the signature holds of the units of a branch; weights are shares of what all of them write."""
    weights = np.concatenate([units.norm for units in branch])
    total = weights.sum()
    shares = weights / total if 0 < total < math.inf else np.zeros_like(weights)
    return UnitCodes(
        shares.astype(np.float32), *(_packed([getattr(units, row) for units in branch]) for row in UNIT_ROWS)
    )


def _packed(signs: Sequence[NDArray[np.bool_]]) -> NDArray[np.uint8]:
    """Signs (u, n) as bytes; an incomplete last byte is left out, since its padding would agree in any two units."""
    rows = np.concatenate(signs)
    return np.packbits(rows[:, : len(rows.T) // 8 * 8], axis=1)
