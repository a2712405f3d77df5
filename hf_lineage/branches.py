"""Branch: one path through one layer as a sum of products, oriented, unpacked, and prepared as the recipe says.

Every path has the same form, M = Σ out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix set:

- mlp          out = W_down, inn = W_up (mlp_gate: W_gate); the experts of a mixture are terms side by side
- value_output out = W_O, inn = W_V, the value heads repeated to line up with the query heads
- query_key    out = W_Qᵀ, inn = W_K, likewise
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hf_lineage.header import LayerSet
from hf_lineage.layout import Layout
from hf_lineage.matrices import Read, gain, reader, writer
from hf_lineage.signature import Recipe

TILE = 2**19
"""Numbers of each matrix that are prepared at a time: a piece of both that stays in a CPU's cache."""
FEWEST = 4
"""Tiles of a term, so that there is work for more threads than one."""

_WRITER = {"mlp": "down", "mlp_gate": "down", "value_output": "output", "query_key": "query"}
_READER = {"mlp": "up", "mlp_gate": "gate", "value_output": "value", "query_key": "key"}


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
    unit_gain: torch.Tensor | None = None
    """(h,), of a norm on the hidden units."""
    centred: bool = False
    """Whether the mean over the width is removed from both."""

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
        writers, readers = (Scratch(size * self.reader.shape[1], self.reader) for _ in range(2))
        for start in self.starts if starts is None else starts:
            units = slice(start, start + size)
            out, mean = self._prepared(writers.widened(self.writer.mT[units]), self.writer_gain)
            inn, _ = self._prepared(readers.widened(self.reader[units]), self.reader_gain)
            if self.unit_gain is not None:
                inn.mul_(self.unit_gain[units, None])
            yield Tile(units, out, inn, mean)

    def _prepared(self, rows: torch.Tensor, gain: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        if gain is not None:
            rows.mul_(gain)
        mean = rows.mean(dim=1) if self.centred else rows.new_zeros(len(rows))
        return (rows.sub_(mean[:, None]) if self.centred else rows), mean

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


def terms(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[Term]:
    """Yield the terms of one branch with the recipe's `gains` and `means`; its `cap` is for those who multiply."""
    for found in layout.sets(path)[layer]:
        yield _term(layout, path, found, recipe, read)


def tensors(layout: Layout, path: str, layer: int) -> tuple[str, ...]:
    """Return the names of the tensors that one branch reads, each once."""
    sets = layout.sets(path)[layer]
    return tuple(dict.fromkeys(name for found in sets for name in found.read_by(_WRITER[path], _READER[path])))


def numbers_made(layout: Layout, path: str, layer: int) -> int:
    """Return how many numbers one branch has to make: heads that read a latent, as what they do to the stream."""
    roles = _WRITER[path], _READER[path]
    through = (found for found in layout.sets(path)[layer] for role in roles if found.slots[role].latent)
    return sum(found.width * found.units for found in through)


def _term(layout: Layout, path: str, found: LayerSet, recipe: Recipe, read: Read) -> Term:
    """A term with the gains and means of its norms; query and key both read the stream, and neither writes it."""

    def reads(role: str) -> torch.Tensor:
        return reader(layout, found, role, read, recipe.gains)

    def folded(norm: str | None) -> torch.Tensor | None:
        return gain(layout, found, norm, read) if recipe.gains and norm else None

    role, centred = _READER[path], recipe.means and layout.factorization.normalization == "layer_norm"
    if path == "query_key":
        norm = folded(found.norm)
        return Term(reads("query").mT, reads(role), found.heads["query"].size, norm, norm, centred=centred)
    return Term(
        writer(layout, found, _WRITER[path], read),
        reads(role),
        found.heads[role].size,
        writer_gain=folded(found.output_norm),
        reader_gain=folded(found.norm),
        unit_gain=folded(found.inner_norm),
        centred=centred,
    )
