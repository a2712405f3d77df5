"""Branch: one path through one layer as a sum of products, oriented, unpacked, and prepared as the recipe says.

Every path has the same form, M = Σ out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix set:

- mlp          out = W_down, inn = W_up (mlp_gate: W_gate); the experts of a mixture are terms side by side
- value_output out = W_O, inn = W_V, the value heads repeated to line up with the query heads
- query_key    out = W_Qᵀ, inn = W_K, likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from hf_lineage.layout import LayerSet, Layout, head_count
from hf_lineage.signature import Recipe

Read = Callable[[str], torch.Tensor]
"""Name of a tensor -> its values as stored, on the device where the layer is computed."""

TILE = 256
"""Hidden units that are prepared at a time: a piece of both matrices that stays in a CPU's cache."""
COLUMNS = 64
"""Residual coordinates of all hidden units at a time, where units are stored as columns."""

_READER = {"mlp": "up", "mlp_gate": "gate", "value_output": "value", "query_key": "key"}


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
    centred: bool = False
    """Whether the mean over the width is removed from both."""
    scales: torch.Tensor | None = None
    """(h / part,): the factor of every part; None for ones."""

    def tiles(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield outᵀ and inn in float32, prepared, (t, width) for the same t hidden units, whole parts at a time.

        A tile lives until the next one is asked for: fresh memory for each would cost more than the arithmetic.
        """
        hidden, width = self.reader.shape
        size = min(max(TILE // self.part, 1) * self.part, hidden)
        writers = _Scratch(self.writer, size, width, self.writer_gain, self.centred)
        readers = _Scratch(self.reader, size, width, self.reader_gain, self.centred)
        for start in range(0, hidden, size):
            units = slice(start, start + size)
            out, inn = writers.prepared(self.writer.mT[units]), readers.prepared(self.reader[units])
            if self.scales is not None:
                scales = self.scales[start // self.part : (start + size) // self.part]
                inn.mul_(scales.repeat_interleave(self.part)[:, None])
            yield out, inn

    @property
    def out(self) -> torch.Tensor:
        """(width, h): the prepared writer as a whole."""
        return torch.cat([out.clone() for out, _ in self.tiles()]).mT

    @property
    def inn(self) -> torch.Tensor:
        """(h, width): the prepared reader as a whole."""
        return torch.cat([inn.clone() for _, inn in self.tiles()])

    def part_norms(self) -> torch.Tensor:
        """Return ‖C_g‖_F (h / part,) of every part C_g = out_g @ inn_g, by the two small Gram matrices of the part."""
        if self.part == 1 and self.scales is None:
            writers = _unit_norms(self.writer.mT, self.writer_gain, self.centred)
            units: torch.Tensor = writers * _unit_norms(self.reader, self.reader_gain, self.centred)
            return units
        return torch.cat([_gram_norms(out, inn, self.part) for out, inn in self.tiles()])


class _Scratch:
    """Memory in which hidden units of one matrix are prepared, a tile (t, width) of at most `size` at a time."""

    def __init__(self, like: torch.Tensor, size: int, width: int, gain: torch.Tensor | None, centred: bool) -> None:
        self._gain, self._centred = gain, centred
        self._wide = like.new_empty((size, width), dtype=torch.float32)
        self._narrow = like.new_empty((2, size * width))

    def prepared(self, rows: torch.Tensor) -> torch.Tensor:
        """Return hidden units as float32, row by row in memory, with their gain and without their mean.

        Rows stored as columns are turned before they are widened: half the bytes, and torch's fast path for it.
        """
        fresh = self._wide[: len(rows)]
        fresh.copy_(rows if rows.stride(-1) == 1 else self._turned(rows))
        if self._gain is not None:
            fresh.mul_(self._gain)
        return fresh.sub_(fresh.mean(dim=1, keepdim=True)) if self._centred else fresh

    def _turned(self, rows: torch.Tensor) -> torch.Tensor:
        count, width = rows.shape
        columns, turned = (piece[: count * width] for piece in self._narrow)
        columns.view(width, count).copy_(rows.mT)
        result: torch.Tensor = turned.view(count, width).copy_(columns.view(width, count).mT)
        return result


def _gram_norms(out: torch.Tensor, inn: torch.Tensor, part: int) -> torch.Tensor:
    writers, readers = (rows.reshape(-1, part, rows.shape[1]) for rows in (out, inn))
    squares = ((writers @ writers.mT) * (readers @ readers.mT)).sum(dim=(1, 2))
    return squares.clamp(min=0).sqrt()


def _unit_norms(rows: torch.Tensor, gain: torch.Tensor | None, centred: bool) -> torch.Tensor:
    """The norm of every prepared hidden unit (h,), of rows stored as columns without turning them."""
    if rows.stride(-1) == 1:
        scratch = _Scratch(rows, min(TILE, len(rows)), rows.shape[1], gain, centred)
        return torch.cat([scratch.prepared(tile).norm(dim=1) for tile in torch.split(rows, TILE)])
    columns = rows.mT
    wide = columns.new_empty((COLUMNS, len(rows)), dtype=torch.float32)

    def pieces() -> Iterator[torch.Tensor]:
        for start in range(0, len(columns), COLUMNS):
            stored = columns[start : start + COLUMNS]
            piece = wide[: len(stored)].copy_(stored)
            yield piece if gain is None else piece.mul_(gain[start : start + COLUMNS, None])

    squares = columns.new_zeros(len(rows), dtype=torch.float32)
    mean = sum((piece.sum(dim=0) for piece in pieces()), squares) / len(columns) if centred else None
    for piece in pieces():
        squares = squares + (piece if mean is None else piece.sub_(mean)).square_().sum(dim=0)
    return squares.sqrt()


def terms(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[Term]:
    """Yield the terms of one branch with the recipe's `gains`, `means` and `cap` applied; a cap reads them twice."""
    found = [_prepared(layout, path, each, recipe, read) for each in _sets(layout, path, layer)]
    if recipe.cap is not None:
        scales = _cap([term.part_norms() for term in found], recipe.cap)
        found = [replace(term, scales=scale) for term, scale in zip(found, scales, strict=True)]
    yield from found


def _cap(norms: list[torch.Tensor], cap: float) -> list[torch.Tensor]:
    """Scales that bring every part above `cap` times the median down to it; dead parts do not count for the median."""
    everything = torch.cat(norms)
    alive = everything[everything > 0]
    limit = cap * alive.median() if alive.numel() else everything.new_tensor(0.0)
    return [torch.where(norm > limit, limit / norm, 1.0) for norm in norms]


def _sets(layout: Layout, path: str, layer: int) -> tuple[LayerSet, ...]:
    return (layout.mlp if path.startswith("mlp") else layout.attention)[layer]


def _prepared(layout: Layout, path: str, found: LayerSet, recipe: Recipe, read: Read) -> Term:
    """A term with the gains and means of its norms; query and key both read the stream, and neither writes it."""
    gain = _gain(layout, found.norm, read) if recipe.gains and found.norm else None
    output_gain = _gain(layout, found.output_norm, read) if recipe.gains and found.output_norm else None
    return replace(
        _term(layout, path, found, read),
        reader_gain=gain,
        writer_gain=gain if path == "query_key" else output_gain,
        centred=recipe.means and layout.factorization.normalization == "layer_norm",
    )


def _gain(layout: Layout, norm: str, read: Read) -> torch.Tensor:
    """γ of a norm (width,)."""
    stored = read(norm).float()
    return stored + 1 if layout.factorization.gain == "one_plus" else stored


def _term(layout: Layout, path: str, found: LayerSet, read: Read) -> Term:
    if path.startswith("mlp"):
        return Term(
            _mlp_matrix(layout, found, "down", read), _mlp_matrix(layout, found, _READER[path], read), found.part
        )
    inn = _head_matrix(layout, found, _READER[path], read)
    if path == "query_key":
        out = _head_matrix(layout, found, "query", read).mT
    else:
        out = _oriented(layout, found.slots["output"].tensor, read)
    return Term(out, inn, found.part)


def _oriented(layout: Layout, tensor: str, read: Read) -> torch.Tensor:
    """A stored tensor as (..., out, in)."""
    return read(tensor).mT if layout.factorization.stored == "in_out" else read(tensor)


def _mlp_matrix(layout: Layout, found: LayerSet, role: str, read: Read) -> torch.Tensor:
    """One MLP role as a matrix; stacked experts (E, rows, columns) are laid side by side along the hidden units."""
    slot = found.slots[role]
    matrix = _oriented(layout, slot.tensor, read)
    index, packed = slot.roles.index(role), len(slot.roles)
    if slot.interleaved:
        matrix = matrix[..., index::packed, :]
    elif packed > 1:
        matrix = matrix.chunk(packed, dim=-2)[index]
    if matrix.ndim == 2:
        return matrix
    return matrix.transpose(0, 1).flatten(1) if role == "down" else matrix.flatten(0, 1)


def _head_matrix(layout: Layout, found: LayerSet, role: str, read: Read) -> torch.Tensor:
    """Query, key or value as (heads x head size, width), a key or value head repeated for each query head it serves."""
    slot = found.slots[role]
    matrix = _oriented(layout, slot.tensor, read)
    stacked = matrix.reshape(-1, found.part, layout.width)
    counts = {part: head_count(slot, part, stacked.shape[0], layout.heads) for part in slot.roles}
    index = slot.roles.index(role)
    if slot.interleaved:
        groups = min(counts.values())
        turns = [count // groups for count in counts.values()]
        mine = torch.split(stacked.reshape(groups, -1, found.part, layout.width), turns, dim=1)[index].flatten(0, 1)
    else:
        mine = torch.split(stacked, list(counts.values()))[index]
    return mine[:, None].expand(-1, layout.heads // mine.shape[0], -1, -1).reshape(-1, layout.width)
