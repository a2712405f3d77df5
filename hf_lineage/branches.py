"""Branch: one path through one layer as a sum of products, oriented, unpacked, and prepared as the recipe says.

Every path has the same form, M = Σ out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix set:

- mlp          out = W_down, inn = W_up (mlp_gate: W_gate); the experts of a mixture are terms side by side
- value_output out = W_O, inn = W_V, the value heads repeated to line up with the query heads
- query_key    out = W_Qᵀ, inn = W_K, likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from hf_lineage.layout import LayerSet, Layout, head_count
from hf_lineage.signature import Recipe

Read = Callable[[str], torch.Tensor]
"""Name of a tensor -> its values as float32, on the device where the layer is computed."""

_READER = {"mlp": "up", "mlp_gate": "gate", "value_output": "value", "query_key": "key"}


@dataclass(frozen=True)
class Term:
    """One addend of M: `out` (width, h) @ `inn` (h, width); `part` consecutive hidden units are interchangeable."""

    out: torch.Tensor
    inn: torch.Tensor
    part: int
    """1 for an MLP's units, the head size for attention."""

    def part_norms(self) -> torch.Tensor:
        """Return ‖C_g‖_F (h / part,) of every part C_g = out_g @ inn_g, by its two small Gram matrices."""
        if self.part == 1:
            outer: torch.Tensor = self.out.norm(dim=0) * self.inn.norm(dim=1)
            return outer
        writers = self.out.mT.reshape(-1, self.part, self.out.shape[0])
        readers = self.inn.reshape(-1, self.part, self.inn.shape[1])
        squares: torch.Tensor = ((writers @ writers.mT) * (readers @ readers.mT)).sum(dim=(1, 2))
        return squares.clamp(min=0).sqrt()

    def scaled(self, scales: torch.Tensor) -> Term:
        """Return the term with every part multiplied by its scale (h / part,)."""
        return Term(self.out, self.inn * scales.repeat_interleave(self.part)[:, None], self.part)


def terms(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[Term]:
    """Yield the terms of one branch with the recipe's `gains`, `means` and `cap` applied.

    With a cap the terms are read twice, first for the norms: no more than one term is in memory at a time.
    """
    if recipe.cap is None:
        yield from _prepared(layout, path, layer, recipe, read)
        return
    norms = [term.part_norms() for term in _prepared(layout, path, layer, recipe, read)]
    scales = _cap(norms, recipe.cap)
    for term, scale in zip(_prepared(layout, path, layer, recipe, read), scales, strict=True):
        yield term.scaled(scale)


def _cap(norms: list[torch.Tensor], cap: float) -> list[torch.Tensor]:
    """Scales that bring every part above `cap` times the median down to it; dead parts do not count for the median."""
    everything = torch.cat(norms)
    alive = everything[everything > 0]
    limit = cap * alive.median() if alive.numel() else everything.new_tensor(0.0)
    return [torch.where(norm > limit, limit / norm, 1.0) for norm in norms]


def _prepared(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[Term]:
    means = recipe.means and layout.factorization.normalization == "layer_norm"
    for found in (layout.mlp if path.startswith("mlp") else layout.attention)[layer]:
        term = _term(layout, path, found, read)
        out, inn = term.out, term.inn
        if recipe.gains and found.norm:
            gain = _gain(layout, found.norm, read)
            inn = inn * gain
            out = out * gain[:, None] if path == "query_key" else out
        if recipe.gains and found.output_norm and path != "query_key":
            out = out * _gain(layout, found.output_norm, read)[:, None]
        if means:
            out, inn = out - out.mean(dim=0), inn - inn.mean(dim=1, keepdim=True)
        yield Term(out, inn, term.part)


def _gain(layout: Layout, norm: str, read: Read) -> torch.Tensor:
    """γ of a norm (width,)."""
    return read(norm) + 1 if layout.factorization.gain == "one_plus" else read(norm)


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
    return mine.repeat_interleave(layout.heads // mine.shape[0], dim=0).flatten(0, 1)
