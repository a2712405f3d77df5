"""Case: one folder that a forger makes of a subject."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.decoys import Tensors
from tests.forging.subject import Part, Subject

DECADES = tuple(range(-7, 0)) + tuple(range(1, 8))
"""By how many powers of ten something is scaled."""


@dataclass(frozen=True)
class Case:
    """One folder."""

    said: str
    """What was done."""
    tensors: Tensors
    settings: dict[str, Any] = field(default_factory=dict)
    part: Part | None = None
    """What of A stands in the model, which is B otherwise; None: the model is A, changed."""
    noise: Tensors | None = None
    """What stands on disk in place of the part, where that is not to be found in memory."""
    changed: tuple[str, ...] = ()
    """The tensors that were changed in B with the part of A, or in A, where nothing else was."""


def mixed(subject: Subject, random: Random) -> Case:
    """A, or B with a part of A."""
    if not random.randrange(5) or not subject.parts_known:
        return Case("A", subject.a)
    part = random.choice(subject.parts_known)
    return Case(f"B with {part.name} of A", part.of(subject.a, subject.b), part=part)
