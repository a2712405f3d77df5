"""Units: what every hidden unit or head of a term adds to a branch product, as far as it is measured."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch

from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS
from hf_lineage.signature.term import Scratch, Term, Tile


class ProbeView(Protocol):
    """The probes of a recipe, as far as the survey needs them."""

    @property
    def coordinates(self) -> torch.Tensor:
        """(m,): the test coordinates S."""

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k)."""

    @property
    def signs(self) -> torch.Tensor:
        """(m, UNIT_SIGNS): ±1, through which the test coordinates of a unit are seen."""

    @property
    def sketched(self) -> int:
        """K where the probes are random signs, 0 where they are columns of the identity."""

    def tile(self, tile: Tile) -> Tile:
        """Return some hidden units with both of their rows in the frame."""

    def written(
        self, term: Term, rows: slice | torch.Tensor, units: slice, mean: torch.Tensor, scratch: Scratch
    ) -> torch.Tensor:
        """Return some rows of some units of a term's writer in the frame, (r, t)."""

    def seen(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows (t, width) @ Z, (t, k)."""


@dataclass(frozen=True)
class Units:
    """What every hidden unit of a term adds to M."""

    seen: torch.Tensor
    """(h, k): inn Z."""
    corner: torch.Tensor
    """(h, m): inn[:, S]."""
    mean: torch.Tensor
    """(h,): the mean that centring subtracts from its column of the writer."""
    trace: torch.Tensor
    """(h,): its share of tr M."""
    total: torch.Tensor
    """(h,): its share of 1ᵀ M 1."""
    norm: torch.Tensor
    """(h / part,): ‖C_g‖_F of every part C_g = out_g @ inn_g, in float64."""
    spread: torch.Tensor
    """(h,): the norm of the row inside the activation, in float64."""
    centre: torch.Tensor
    """(h,): what β of the norm in front adds to the input of the activation, in float64."""
    inner: torch.Tensor
    """(h / part, signs): whether random sums of its reader, or entries of a head's product, are positive."""
    outer: torch.Tensor
    """(h / part, signs): the same of its writer; no signs for heads."""

    @classmethod
    def empty(cls, term: Term, probes: ProbeView) -> Units:
        """Return the units of a term with uninitialised values."""
        hidden, parts = len(term.reader), len(term.reader) // term.part
        new = functools.partial(torch.empty, device=term.reader.device)
        _, columns = probes.shape
        size = len(probes.coordinates)
        inner, outer = (UNIT_SIGNS, UNIT_SIGNS) if term.part == 1 else (min(size, HEAD_COORDINATES) ** 2, 0)
        return cls(
            seen=new(hidden, columns),
            corner=new(hidden, size),
            mean=new(hidden),
            trace=new(hidden),
            total=new(hidden),
            norm=new(parts, dtype=torch.float64),
            spread=new(hidden, dtype=torch.float64),
            centre=new(hidden, dtype=torch.float64),
            inner=new(parts, inner, dtype=torch.bool),
            outer=new(parts, outer, dtype=torch.bool),
        )

    def scale(self, factors: torch.Tensor) -> None:
        """Multiply every part by its own factor (h / part,); 0 gives 0 even for a part too large for float32.

        Weights that are not finite cannot be scaled away: the norm stays not finite.
        """
        per_unit = factors.float().repeat_interleave(len(self.trace) // len(factors))
        shut = per_unit == 0
        for value in (self.seen, self.corner, self.trace, self.total):
            value.mul_(per_unit[:, None] if value.ndim > 1 else per_unit)
            if shut.any():
                value[shut] = 0
        self.norm.mul_(factors.abs())
