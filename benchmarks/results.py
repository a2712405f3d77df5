"""Results: one row for each target, as a table that fits a terminal and as JSON."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 80


@dataclass(frozen=True)
class Target:
    """The range in which a figure has to lie; without bounds it is there for comparison alone."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if not self.bounded:
            return "none"
        if math.isinf(self.low):
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"

    @property
    def bounded(self) -> bool:
        """Whether there is a figure that misses it."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def holds(self, measured: float) -> bool:
        return self.low <= measured <= self.high

    def ratio(self, measured: float) -> float:
        """Return how well the target is met: 1 just so, 2 twice as well as asked for."""
        if math.isinf(self.low):
            above, below = self.high, measured
        elif math.isinf(self.high):
            above, below = measured, self.low
        else:
            above, below = (self.high - self.low) / 2, abs(measured - (self.high + self.low) / 2)
        return above / below if below > 0 else math.inf


@dataclass(frozen=True)
class Row:
    """One figure beside its target."""

    what: str
    target: Target
    measured: float | None  # None where it could not be measured; the note says why
    unit: str
    note: str

    @property
    def met(self) -> bool:
        """Whether the figure was measured and is as asked for."""
        return self.measured is not None and self.target.holds(self.measured)

    @property
    def outcome(self) -> str:
        if self.measured is None or not self.target.bounded:
            return "–"
        return "met" if self.met else "missed"

    def as_json(self) -> dict[str, Any]:
        """Return the row as it stands in a results file."""
        return {
            "what": self.what,
            "target": f"{self.target} {self.unit}" if self.target.bounded else str(self.target),
            "measured": None if self.measured is None else significant(self.measured),
            "unit": self.unit,
            "met": self.met,
            "note": self.note,
        }


def significant(number: float) -> float:
    """Return a number with four digits that count."""
    return float(f"{number:.4g}")


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the rows as a table, and their notes below."""
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, padding=(0, 1), pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("what", ratio=1)
    for name in ("target", "measured", "ratio", "result"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, row in enumerate(rows, 1):
        measured, ratio = ("–", "–") if row.measured is None else _figures(row.target, row.measured)
        what = f"{row.what} ({row.unit})"
        table.add_row(str(number), what, str(row.target), measured, ratio, row.outcome)
    console.print(table)
    console.print("ratio: 1 is just on target, 2 twice as good as that\n", markup=False)
    for number, row in enumerate(rows, 1):
        console.print(
            textwrap.fill(row.note, WIDTH, initial_indent=f"{number:>3}  ", subsequent_indent="     "),
            markup=False,
            highlight=False,
        )


def _figures(target: Target, measured: float) -> tuple[str, str]:
    return f"{measured:.3g}", f"{target.ratio(measured):.2f}" if target.bounded else "–"
