"""Experiment: a part of one table or figure of the paper, in two sizes, with the claim that it bears out."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from matplotlib.figure import Figure

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.plots import save

SCALES = ("smoke", "lite")

T = TypeVar("T")


Value = float | str | None
DIGITS = 4


@dataclass(frozen=True)
class Row:
    """One figure of the paper beside ours; None where there is none."""

    name: str
    paper: Value
    ours: Value
    note: str = ""  # a sentence wherever the two differ by more than the noise

    @classmethod
    def beside(cls, name: str, paper: float, ours: float, note: str) -> Self:
        """Return a row that has its note where the two figures differ."""
        return cls(name, paper, ours, note if differs(ours, paper) else "")

    @property
    def number(self) -> float:
        return self.ours if isinstance(self.ours, int | float) else math.nan


@dataclass(frozen=True)
class Results:
    """What stands in a results file."""

    item: str
    scale: str
    command: str
    rows: Sequence[Row]

    @classmethod
    def read(cls, file: Path) -> Self:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})

    def write(self, folder: Path) -> Path:
        """Write the file of these results into a folder, numbers rounded to what they are worth, and return it."""
        rounded = [{key: _rounded(value) for key, value in asdict(row).items()} for row in self.rows]
        file = folder / file_name(self.item)
        folder.mkdir(parents=True, exist_ok=True)
        content = {"item": self.item, "scale": self.scale, "command": self.command, "rows": rounded}
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return file

    @property
    def markdown(self) -> str:
        """The rows as a Markdown table under a heading."""
        lines = [f"### {self.item} ({self.scale})", "", f"`{self.command}`", ""]
        lines += ["| | paper | ours | note |", "| --- | ---: | ---: | --- |"]
        lines += [_line(row.name, _text(row.paper), _text(row.ours), row.note) for row in self.rows]
        return "\n".join(lines) + "\n"


def differs(ours: float, paper: float) -> bool:
    """Return whether two figures differ by more than other seeds would make: five parts in a hundred, or 0.01."""
    return abs(ours - paper) > max(0.05 * abs(paper), 0.01)


def file_name(item: str) -> str:
    return f"{item.replace(':', '-')}.json"


def _rounded(value: Value) -> Value:
    """NaN is not JSON."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _text(value: Value) -> str:
    return "–" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


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
    figures: Path  # the folder that figures go to

    def sized(self, smoke: T, lite: T) -> T:
        """Return that of two sizes which is asked for."""
        return smoke if self.scale == "smoke" else lite

    def draw(self, name: str, figure: Figure) -> None:
        save(figure, self.figures / f"{name}.svg")


@dataclass(frozen=True)
class Experiment:
    """Several may share an item: its results file has the rows of all of them, in the order of their modules."""

    item: str  # the label in the paper, such as `tab:survival`; `ours:` and a name where the paper has no such item
    title: str
    rows: Callable[[Bench], Sequence[Row]]
    claim: Callable[[Mapping[str, Row]], None]
    """Given the rows by name, raises ClaimError where they contradict what the paper says of the item."""
