"""Bench: what every case is given."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.clock import Run, Seconds, cold, interleaved
from benchmarks.commands import environment, succeeded
from benchmarks.results import Row
from benchmarks.scratch import Scratch
from benchmarks.shapes import Model, Plan


@dataclass(frozen=True)
class Bench:
    """The plan of this run and where it may write."""

    plan: Plan
    scratch: Scratch
    rivals: Path | None  # where rival tools are installed; None where they are left out

    def medians(self) -> str:
        """Return how often it was measured, for a note."""
        return f"medians of {self.plan.rounds}"


class Case(NamedTuple):
    """One line of the table of targets."""

    models: Callable[[Plan], tuple[Model, ...]]  # the checkpoints it measures
    rows: Callable[[Bench], Iterator[Row]]


def nothing(_plan: Plan) -> tuple[Model, ...]:
    """Return no models: for a case that measures none, or writes its own."""
    return ()


def median(seconds: Seconds) -> str:
    return duration(statistics.median(seconds))


def duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def in_turn(
    bench: Bench, commands: Mapping[str, tuple[list[str], int]], rounds: int, twice: bool = False
) -> tuple[dict[str, Seconds], dict[str, Run]]:
    """Return what each command with its exit code takes in each round, caches empty at first, and its last run."""
    last: dict[str, Run] = {}

    def run(name: str, command: list[str], code: int) -> None:
        last[name] = succeeded(cold(command, environment(bench.scratch.home)), (code,))

    tasks = {name: partial(run, name, *command) for name, command in commands.items()}
    return interleaved(tasks, rounds, twice), last
