"""Term: one addend of a branch product: its two matrices as they are stored, and how to prepare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hf_lineage.signature.recipe import Vector

TILE = 2**18
"""Numbers of each matrix that are prepared at a time: a piece of both that stays in a CPU's cache."""
UNITS = 2048
"""Hidden units of a writer of which some rows are taken at a time."""
SMALLEST, LARGEST = 1e-12, 1e17
"""Between these a norm is right in float32: no square of it was lost, and none overflowed."""
FEWEST = 4
"""Tiles of a term, so that there is work for more threads than one."""


class Tile(NamedTuple):
    """Some hidden units of a term, prepared, in float32, in memory as they are stored.

    It lives until the next one is asked for: fresh memory for each would cost more than the arithmetic.
    """

    units: slice
    out: torch.Tensor
    """(t, width): outᵀ."""
    inn: torch.Tensor
    """(t, width)"""
    mean: torch.Tensor
    """(t,): the mean that centring subtracted from every row of `out`."""
    inside: tuple[torch.Tensor, torch.Tensor] | None
    """(t,) each, in float64: the norms of the rows whose output is the input of the activation, and what β of the norm
    adds to that output; None where they are not needed."""


def row_norms(rows: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean norm of every row (t,), in float64, also where squares leave the range of float32."""
    if rows.stride(1) == 1:  # torch has a fast path for these alone
        norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1).double()
    else:
        norms = rows.square().sum(dim=1).double().sqrt()
    low, high = norms.aminmax()
    if not (low > SMALLEST and high < LARGEST):  # also where one is not a number
        doubtful = ~((norms > SMALLEST) & (norms < LARGEST))
        norms[doubtful] = rows[doubtful].double().square().sum(dim=1).sqrt()
    return norms


@dataclass(frozen=True)
class Rows:
    """Rows that read the stream, (h, width) as stored, and how to prepare them."""

    stored: torch.Tensor
    gain: torch.Tensor | None = None
    centred: bool = False
    shift: torch.Tensor | None = None
    """(width,): β of the norm in front of them."""

    def measured(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of every prepared row and its product with β, (h,) each, in float64."""
        hidden, width = self.stored.shape
        size = max(TILE // width, 1)
        scratch = Scratch(min(size, hidden) * width, self.stored)
        parts = [self.norms(slice(start, start + size), scratch) for start in range(0, hidden, size)]
        norms, offsets = zip(*parts, strict=True)
        return torch.cat(norms), torch.cat(offsets)

    def norms(self, units: slice, scratch: Scratch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norms of some prepared rows and their product with β, (t,) each, in float64."""
        rows, _, offset = self.prepared(units, scratch)
        return row_norms(rows), offset.double()

    def prepared(self, units: slice, scratch: Scratch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return some rows (t, width), the gain folded in and the mean removed, that mean, and their product with β."""
        rows = scratch.widened(self.stored[units])
        offset = rows.new_zeros(len(rows)) if self.shift is None else rows @ self.shift
        if self.gain is not None:
            rows.mul_(self.gain)
        if not self.centred:
            return rows, rows.new_zeros(len(rows)), offset
        mean = rows.mean(dim=1)
        return rows.sub_(mean[:, None]), mean, offset


@dataclass(frozen=True)
class Beside:
    """Rows whose output the activation is multiplied with."""

    rows: Rows
    factor: Callable[[Vector, Vector], Vector]
    """From the spread and the centre of their output (h,) to the factor of the activity a (h,)."""
    bias: torch.Tensor | None = None
    """(h,)"""


@dataclass(frozen=True)
class Inside:
    """The input of the activation of a term's hidden units, from which their activity is computed."""

    expected: Callable[[Vector, Vector], Vector]
    """From the spread σ and the centre b of every unit's input (h,) to its expected activity a (h,)."""
    rows: Rows | None = None
    """The rows that compute that input; None where they are the term's prepared reader."""
    bias: torch.Tensor | None = None
    """(h,)"""
    beside: Beside | None = None
    """The rows whose output the activation is multiplied with, if the activity depends on them."""
    odds: torch.Tensor | None = None
    """(h,): how probable it is that a token is sent to the unit's expert."""


@dataclass(frozen=True)
class Term:
    """One addend of M, out (width, h) @ inn (h, width): two matrices as stored, and how to prepare them.

    Nothing is converted before `tiles`, so that a term needs no memory beyond the stored tensors.
    """

    writer: torch.Tensor
    """(width, h)"""
    reader: torch.Tensor
    """(h, width)"""
    part: int
    """How many consecutive hidden units are interchangeable together: 1 for an MLP's, the head size for attention."""
    writer_gain: torch.Tensor | None = None
    reader_gain: torch.Tensor | None = None
    reader_shift: torch.Tensor | None = None
    """(width,): β of the norm in front of the reader."""
    unit_gain: torch.Tensor | None = None
    """(h,), of a norm on the hidden units."""
    centred: bool = False
    """Whether the mean over the width is removed from both."""
    normed: bool = False
    """Whether a norm follows the branch, so that its output has the size of the norm's gain."""
    inside: Inside | None = None
    """The values on which the activity of hidden units depends; None where all of them count in full."""
    weigh: Term | None = None
    """The term whose norms weigh this one's parts: a head's value-output product weighs its query-key product."""

    @property
    def starts(self) -> range:
        """The first hidden unit of every tile."""
        return range(0, len(self.reader), self._size)

    @property
    def _size(self) -> int:
        """Hidden units of a tile: whole parts."""
        hidden, width = self.reader.shape
        return max(min(TILE // width, hidden // FEWEST) // self.part, 1) * self.part

    def tiles(self, starts: Iterable[int] | None = None) -> Iterator[Tile]:
        """Yield the hidden units of every tile, or of those named by their starts, prepared."""
        size = min(self._size, len(self.reader))
        writers, readers, others = (Scratch(size * self.reader.shape[1], self.reader) for _ in range(3))
        outs = Rows(self.writer.mT, self.writer_gain, self.centred)
        inns = Rows(self.reader, self.reader_gain, self.centred, self.reader_shift)
        for start in self.starts if starts is None else starts:
            units = slice(start, start + size)
            out, mean, _ = outs.prepared(units, writers)
            inn, _, offset = inns.prepared(units, readers)
            inside = None
            if self.inside is not None:
                apart = self.inside.rows
                inside = (row_norms(inn), offset.double()) if apart is None else apart.norms(units, others)
            if self.unit_gain is not None:
                inn.mul_(self.unit_gain[units, None])
            yield Tile(units, out, inn, mean, inside)

    def written(self, rows: slice | torch.Tensor, units: slice, mean: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        """Return some rows of some units of the prepared writer (r, t), given the mean of each of these units (t,)."""
        wide = scratch.widened(self.writer[rows, units])
        if self.writer_gain is not None:
            wide.mul_(self.writer_gain[rows, None])
        return wide.sub_(mean) if self.centred else wide

    @property
    def out(self) -> torch.Tensor:
        """(width, h): the prepared writer as a whole."""
        return torch.cat([tile.out.clone() for tile in self.tiles()]).mT

    @property
    def inn(self) -> torch.Tensor:
        """(h, width): the prepared reader as a whole."""
        return torch.cat([tile.inn.clone() for tile in self.tiles()])


class Scratch:
    """Memory for pieces of a stored matrix in float32, at most `size` numbers each, used again for every piece."""

    def __init__(self, size: int, like: torch.Tensor) -> None:
        self._memory = like.new_empty(size, dtype=torch.float32)

    def widened(self, stored: torch.Tensor) -> torch.Tensor:
        """Return a piece (r, c) as float32, in the order in which it is stored: transposing it would cost far more.

        Short runs are gathered before they are widened, which torch does faster in two steps than in one.
        """
        if stored.stride(-1) != 1 and stored.stride(0) == 1:
            return self.widened(stored.mT).mT
        wide: torch.Tensor = self._memory[: stored.numel()].view(stored.shape).copy_(stored.contiguous())
        return wide
