"""Residual: the product M of a branch, capped, centred, and seen through the probes.

Every hidden unit u adds out_u inn_uᵀ to M. A first pass over both matrices notes what each unit adds, before anybody
knows how much of it the cap lets through, which takes the median of all; a second pass over the writers multiplies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hf_lineage.branches import Scratch, Term
from hf_lineage.signature import Recipe
from hf_lineage.threads import Share

ROWS, UNITS = 128, 2048
"""Residual coordinates and hidden units of a writer that are multiplied at a time."""


@dataclass(frozen=True)
class Probes:
    """What a branch is looked at through, on one device: Z (width, k), or some columns of the identity, and S (m,)."""

    width: int
    matrix: torch.Tensor | slice
    coordinates: torch.Tensor

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        width: int,
        device: torch.device,
        columns: slice = slice(None),
        most: int | None = None,
    ) -> Probes:
        """Return a recipe's probes on a device; in exact mode those columns of the identity. S is at most so large."""
        matrix = recipe.probe_matrix(width)
        return cls(
            width,
            columns if matrix is None else torch.from_numpy(matrix).to(device),
            torch.from_numpy(recipe.test_coordinates(width, most)).to(device),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k) of Z."""
        if isinstance(self.matrix, slice):
            return self.width, len(range(self.width)[self.matrix])
        return self.width, self.matrix.shape[1]

    def seen(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows (t, width) @ Z, (t, k)."""
        return rows[:, self.matrix] if isinstance(self.matrix, slice) else rows @ self.matrix

    def centre(self, product: torch.Tensor, identity: float, ones: float) -> torch.Tensor:
        """Take (identity I + ones 11ᵀ) Z off a product (width, k), in place, and return it."""
        if isinstance(self.matrix, slice):
            product[self.matrix].diagonal().sub_(identity)
            return product.sub_(ones)
        return product.sub_(self.matrix, alpha=identity).sub_(self.matrix.sum(dim=0), alpha=ones)


@dataclass(frozen=True)
class Block:
    """One branch's share of a PathSignature, on the CPU."""

    sketch: torch.Tensor
    corner: torch.Tensor
    trace: float
    norm: float


@dataclass(frozen=True)
class Units:
    """What every hidden unit of a term adds to M."""

    seen: torch.Tensor
    """(h, k): inn Z."""
    corner: torch.Tensor
    """(h, m): inn[:, S]."""
    mean: torch.Tensor
    """(h,): what centring takes off its column of the writer."""
    trace: torch.Tensor
    """(h,): its share of tr M."""
    total: torch.Tensor
    """(h,): its share of 1ᵀ M 1."""
    norm: torch.Tensor
    """(h / part,): ‖C_g‖_F of every part C_g = out_g @ inn_g."""

    @classmethod
    def empty(cls, term: Term, probes: Probes) -> Units:
        """Return the units of a term before anything is known of them."""
        hidden, new = len(term.reader), functools.partial(torch.empty, device=term.reader.device)
        seen, corner = new(hidden, probes.shape[1]), new(hidden, len(probes.coordinates))
        return cls(seen, corner, new(hidden), new(hidden), new(hidden), new(hidden // term.part))

    def scale(self, factors: torch.Tensor) -> None:
        """Let every part through by its own factor (h / part,)."""
        each = factors.repeat_interleave(len(self.trace) // len(factors))
        for value in (self.seen, self.corner):
            value.mul_(each[:, None])
        for value in (self.trace, self.total):
            value.mul_(each)
        self.norm.mul_(factors)


def summarise(branch: Iterable[Term], probes: Probes, recipe: Recipe, share: Share) -> Block:
    """Return what the signature keeps of one branch: its centred residual R seen through the probes, tr M and ‖M‖_F.

    R = M - a I - b 11ᵀ is the projection off span{I, 11ᵀ} (b = 0 unless the recipe says `ones`; paper, equation 4).
    """
    found = [(term, survey(term, probes, share)) for term in branch]
    if recipe.cap is not None:
        cap([units for _, units in found], recipe.cap)
    product, corner = multiply(found, probes, share)
    norm = float(torch.linalg.vector_norm(product, dtype=torch.float64))
    trace = sum(float(units.trace.sum(dtype=torch.float64)) for _, units in found)
    total = sum(float(units.total.sum(dtype=torch.float64)) for _, units in found)
    ones = (total - trace) / (probes.width * (probes.width - 1)) if recipe.ones else 0.0
    identity = trace / probes.width - ones
    sketch = probes.centre(product, identity, ones).cpu()
    corner.diagonal().sub_(identity)
    corner = corner.sub_(ones).cpu()
    if not (sketch.isfinite().all() and corner.isfinite().all() and math.isfinite(norm)):
        return Block(sketch.zero_(), corner.zero_(), math.nan, math.nan)
    return Block(sketch, corner, trace, norm)


def survey(term: Term, probes: Probes, share: Share) -> Units:
    """Return what every hidden unit of a term adds to M: the one pass over its reader, the first over its writer."""
    units = Units.empty(term, probes)

    def note(starts: Iterator[int]) -> None:
        for chosen, out, inn, mean in term.tiles(starts):
            units.seen[chosen] = probes.seen(inn)
            units.corner[chosen] = inn.index_select(1, probes.coordinates)
            units.mean[chosen] = mean
            units.trace[chosen] = unit_dots(out, inn)
            units.total[chosen] = out.sum(dim=1) * inn.sum(dim=1)
            units.norm[chosen.start // term.part : chosen.stop // term.part] = part_norms(out, inn, term.part)

    share(note, term.starts)
    return units


def unit_dots(out: torch.Tensor, inn: torch.Tensor) -> torch.Tensor:
    """Return the inner product (t,) of every row of outᵀ with the same row of inn (t, width).

    They are the diagonals of small square products, since only those read a matrix stored the other way at full speed.
    """
    blocks = (-1, math.gcd(len(inn), 16), inn.shape[1])
    squares = inn.reshape(blocks) @ out.reshape(blocks).mT
    return squares.diagonal(dim1=1, dim2=2).flatten()


def part_norms(out: torch.Tensor, inn: torch.Tensor, part: int) -> torch.Tensor:
    """Return ‖C_g‖_F (t / part,) of every part of outᵀ and inn (t, width), by its two small Gram matrices."""
    if part == 1:
        squares = out.square().sum(dim=1) * inn.square().sum(dim=1)
    else:
        writers, readers = (rows.reshape(-1, part, rows.shape[1]) for rows in (out, inn))
        squares = ((writers @ writers.mT) * (readers @ readers.mT)).sum(dim=(1, 2))
    return squares.clamp(min=0).sqrt()


def cap(branch: Sequence[Units], limit: float) -> None:
    """Scale every part above `limit` times the median down to that; dead parts do not count for the median."""
    norms = torch.cat([units.norm for units in branch])
    alive = norms[norms > 0]
    most = limit * alive.median() if alive.numel() else norms.new_tensor(0.0)
    for units in branch:
        units.scale(torch.where(units.norm > most, most / units.norm, 1.0))


class _Target(NamedTuple):
    """Some rows of the writers, what each term's have to be multiplied with, and where the sum goes."""

    rows: slice | torch.Tensor
    seen: tuple[torch.Tensor, ...]
    product: torch.Tensor


def multiply(branch: Sequence[tuple[Term, Units]], probes: Probes, share: Share) -> tuple[torch.Tensor, torch.Tensor]:
    """Return M Z (width, k) and M[S, S] (m, m): the second pass over the writers, some rows of them at a time."""
    chosen = probes.coordinates
    product = chosen.new_zeros(probes.shape, dtype=torch.float32)
    corner = chosen.new_zeros((len(chosen), len(chosen)), dtype=torch.float32)
    seen = tuple(units.seen for _, units in branch)
    targets = [_Target(chosen, tuple(units.corner for _, units in branch), corner)]
    targets += [_Target(rows, seen, product[rows]) for rows in _slices(probes.width, ROWS)]

    def write(targets: Iterator[_Target]) -> None:
        scratch = Scratch(max(ROWS, len(chosen)) * UNITS, product)
        for target in targets:
            for (term, units), through in zip(branch, target.seen, strict=True):
                for some in _slices(len(through), UNITS):
                    writer = term.written(target.rows, some, units.mean[some], scratch)
                    target.product.addmm_(writer, through[some])

    share(write, targets)
    return product, corner


def _slices(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]
