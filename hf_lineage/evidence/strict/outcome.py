"""Outcome of holding every number of a model against its base: which are the base's, and what else there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WIDE = 0.01
"""A tensor of which more numbers differ is changed as training changes it, and not as an edit of some numbers."""


@dataclass(frozen=True)
class Beyond:
    """A tensor that is not what the base's would be stored as."""

    name: str
    numbers: int
    """Numbers of the tensor."""
    beyond: int
    """Numbers that are further from the base's than the format leaves; 0 where only grids are too coarse."""
    excess: float
    """Largest distance beyond what the format leaves, in steps of the grid; 0 where only grids are too coarse."""
    place: tuple[int, ...] = ()
    """Indices of the number that is furthest from the base's."""
    coarse: int = 0
    """Blocks whose grid is coarser than their numbers need."""
    why: str = ""
    """Another fault, as a phrase that follows the name; empty if the numbers are the fault."""

    @property
    def wide(self) -> bool:
        """Whether most likely training changed it."""
        return self.beyond > WIDE * self.numbers


@dataclass(frozen=True)
class Strict:
    """Every tensor of a model held against the base's."""

    base: str
    """The name of the base, with its commit where it has one."""
    stored: Mapping[str, int] = field(default_factory=dict)
    """Name of a format or of a number format -> tensors that are stored in it; the empty name: as the base's are."""
    beyond: tuple[Beyond, ...] = ()
    unbound: Mapping[str, str] = field(default_factory=dict)
    """Tensors that cannot be held against the base's number by number, each with the reason."""
    added: tuple[str, ...] = ()
    """Tensors that the base does not have."""
    lacking: tuple[str, ...] = ()
    """Tensors that only the base has."""
    copies: tuple[str, ...] = ()
    """Tensors that only one of both stores and that say nothing of their own, each with what it is."""
    settings: tuple[str, ...] = ()
    """Settings of `config.json` that differ."""
    problem: str = ""
    """Why nothing was held against the base; empty where it was."""

    @property
    def right(self) -> int:
        """Number of tensors that are what the base's would be stored as."""
        return sum(self.stored.values())

    @property
    def tensors(self) -> int:
        """Number of the model's tensors that were to be held against the base's."""
        return self.right + len(self.beyond) + len(self.unbound) + len(self.added)

    @property
    def holds(self) -> bool:
        """Whether the model is the base as it would be stored in these formats, and nothing else."""
        missing = self.beyond or self.unbound or self.added or self.lacking or self.settings
        return bool(self.right) and not (self.problem or missing)

    @property
    def what(self) -> str:
        """The relation of the model to the base as far as the two agree, as a phrase before the base's name."""
        quantized = sorted({how for how in self.stored if how and how not in CASTS})
        casts = sorted({how for how in self.stored if how in CASTS})
        if quantized:
            return f"the quantization ({', '.join(quantized)}) of"
        return f"the rounding to {' and '.join(CASTS[how] for how in casts)} of" if casts else "the same numbers as"

    @property
    def is_edit(self) -> bool:
        """Whether what differs is as an edit leaves it: few numbers of most tensors, and not as training does."""
        return sum(one.wide for one in self.beyond) <= len(self.beyond) / 2


CASTS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Number formats, in words."""
