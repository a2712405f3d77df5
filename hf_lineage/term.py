"""Term: one addend of a branch product, its two matrices as they are stored and what is to be done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hf_lineage.recipe import Vector

TILE = 2**18
"""Numbers of each matrix that are prepared at a time: a piece of both that stays in a CPU's cache."""
SMALLEST, LARGEST = 1e-25, 1e35
"""Between these a sum of squares is right in float32: no term of it was lost, and none overflowed."""
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
    """(t,): what centring took off every row of `out`."""
    inside: tuple[torch.Tensor, torch.Tensor] | None
    """(t,) each, in float64: the norms of the rows inside the activation, and what β of the norm adds to what they
    give; None where nobody asks for them."""


def row_norms(rows: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean norm of every row (t,), in float64, also where squares leave the range of float32."""
    if rows.stride(1) == 1:  # torch has a fast path for these alone
        squares = torch.linalg.vector_norm(rows, dim=1).double().square()
    else:
        squares = rows.square().sum(dim=1).double()
    doubtful = _doubtful(squares)
    if doubtful.any():
        squares[doubtful] = rows[doubtful].double().square().sum(dim=1)
    norms: torch.Tensor = squares.sqrt()
    return norms


def _doubtful(squares: torch.Tensor) -> torch.Tensor:
    """Where a sum of squares that was made in float32 may have lost a term, or overflowed."""
    return ~((squares > SMALLEST) & (squares < LARGEST))


@dataclass(frozen=True)
class Rows:
    """Rows that read the stream, (h, width) as stored, and what is to be done to them."""

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
        if self.centred or self.shift is not None:
            rows, _, offset = self.prepared(units, scratch)
            return row_norms(rows), offset.double()
        squares = scratch.widened(self.stored[units]).square_()
        summed = (squares.sum(dim=1) if self.gain is None else squares @ self.gain.square()).double()
        doubtful = _doubtful(summed)
        if doubtful.any():
            rows = self.stored[units][doubtful].double()
            summed[doubtful] = (rows if self.gain is None else rows * self.gain).square().sum(dim=1)
        return summed.sqrt(), torch.zeros_like(summed)

    def prepared(self, units: slice, scratch: Scratch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return some rows (t, width), the gain folded in and the mean removed, that mean, and what they make of β."""
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
    """Rows beside an activation, whose output is multiplied with theirs."""

    rows: Rows
    factor: Callable[[Vector, Vector], Vector]
    """From the spread and the centre of what they give (h,) to what a is multiplied with (h,)."""
    bias: torch.Tensor | None = None
    """(h,)"""


@dataclass(frozen=True)
class Inside:
    """What stands inside the activation of a term's hidden units, which tells how active each of them is."""

    expected: Callable[[Vector, Vector], Vector]
    """From the spread σ and the centre b of every unit's input (h,) to its expected activity a (h,)."""
    rows: Rows | None = None
    """What makes that input; None where it is the term's reader as it is prepared."""
    bias: torch.Tensor | None = None
    """(h,)"""
    beside: Beside | None = None
    """What the activation is multiplied with in the layer, as far as a depends on it."""
    odds: torch.Tensor | None = None
    """(h,): how probable it is that a token is sent to the unit's expert."""


@dataclass(frozen=True)
class Term:
    """One addend of M, out (width, h) @ inn (h, width): two matrices as stored, and what is to be done to them.

    Nothing is converted before `tiles`, so that a term costs no memory beyond its file's.
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
    """Whether a norm stands on what the branch writes, so that its size is that of the norm's gain."""
    inside: Inside | None = None
    """What the activity of hidden units depends on; None where they all count in full."""
    weigh: Term | None = None
    """The term whose parts' norms weigh this one's: what a head writes, for what its query and key see."""

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
        """Return a piece (r, c) as float32, in the order in which it is stored: turning it would cost far more.

        Short runs are gathered before they are widened, which torch does faster in two steps than in one.
        """
        if stored.stride(-1) != 1 and stored.stride(0) == 1:
            return self.widened(stored.mT).mT
        wide: torch.Tensor = self._memory[: stored.numel()].view(stored.shape).copy_(stored.contiguous())
        return wide
