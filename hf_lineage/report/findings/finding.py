"""A finding: one result of a check, as plain values that every report prints in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of texts, every row as long as `columns`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    """Columns that hold figures, counted from 0."""


@dataclass(frozen=True)
class Bar:
    """A share of the whole: 0 is nothing, 1 is all of it; ends beyond them are drawn at them."""

    label: str
    value: float
    low: float
    high: float
    """The ends of the interval that holds the value."""
    clear: bool = True
    """Whether the value says anything; where the interval is too wide, only that is drawn."""
    pale: bool = False
    """Whether it is drawn paler than others, as what a picture is not about."""


@dataclass(frozen=True)
class Bars:
    """A picture: a bar for each of several shares, below each other."""

    bars: tuple[Bar, ...]
    caption: str = ""


@dataclass(frozen=True)
class Finding:
    """One result about a claim, or about all of them."""

    title: str
    about: str = ""
    """The name in front of each sentence where several claims stand in one list; empty where it concerns all."""
    sentences: tuple[str, ...] = ()
    """Sentences of every report, without a name in front and without a stop at the end."""
    details: tuple[str, ...] = ()
    """Sentences that reports for people add with `--explain`, and pages always."""
    tables: tuple[Table, ...] = ()
    """Shown where the details are."""
    picture: Bars | None = None
    """Drawn where there are pictures, below `tables`."""
    values: Any = None
    """The same for machines, as values of JSON."""
    first: bool = False
    """Whether every report says it before everything else."""
    in_verdict: bool = False
    """Whether a page says it beside the verdict, above everything else."""
    brief: str = ""
    """The sentence of a report without `--explain`; empty where such a report does not have the finding."""

    @property
    def statements(self) -> Iterator[str]:
        """The sentences, or the details where there are none, each with the name in front."""
        return (self.named(sentence) for sentence in self.sentences or self.details)

    def named(self, sentence: str) -> str:
        """Return a sentence with what it is about in front."""
        return f"{self.about}: {sentence}" if self.about else sentence
