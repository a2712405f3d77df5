"""Blended: a model beside several known parents, and which of those that made it its card does not name."""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.evidence.derivation import Blend, Made


@dataclass(frozen=True)
class Blended:
    """A model as a combination of several known parents."""

    parents: tuple[str, ...]
    """Their names."""
    blend: Blend
    named: tuple[bool, ...]
    """Whether each of them is named as a base by the card of the model, or by another of its files."""
    by_model: bool = True
    """Whether the model names any base at all; otherwise whoever checks names them."""

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The parents that gave a part and that nothing of the model names."""
        made = zip(self.parents, self.blend.made, self.named, strict=True)
        return tuple(parent for parent, how, named in made if how is Made.BLEND and not named)
