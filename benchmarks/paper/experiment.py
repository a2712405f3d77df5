"""Experiment: a part of one table or figure of the paper, in two sizes, with the claim that it bears out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.plots import save
from benchmarks.paper.parts.results import Row

SCALES = ("smoke", "lite")

T = TypeVar("T")


class ClaimError(AssertionError):
    """What the paper says of an item does not hold for the rows; the message is the sentence that fails."""


def claim(holds: bool, sentence: str) -> None:
    """Raise ClaimError with a sentence unless it holds."""
    if not holds:
        raise ClaimError(sentence)


@dataclass(frozen=True)
class Bench:
    """What an experiment is run with."""

    scale: str
    cache: Cache
    figures: Path
    """The folder that figures go to."""

    def sized(self, smoke: T, lite: T) -> T:
        """Return that of two sizes which is asked for."""
        return smoke if self.scale == "smoke" else lite

    def draw(self, name: str, figure: Figure) -> None:
        """Write a figure under a name."""
        save(figure, self.figures / f"{name}.svg")


@dataclass(frozen=True)
class Experiment:
    """Several may share an item: its results file has the rows of all of them, in the order of their modules."""

    item: str
    """The label in the paper, such as `tab:survival`; `ours:` and a name where the paper has no such item."""
    title: str
    rows: Callable[[Bench], Sequence[Row]]
    claim: Callable[[Mapping[str, Row]], None]
    """Given the rows by name, raises ClaimError where they contradict what the paper says of the item."""
