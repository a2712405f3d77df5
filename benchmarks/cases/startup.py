"""Start-up: what it takes until the command does something."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from benchmarks.cases.bench import Bench
from benchmarks.clock import cold, interleaved
from benchmarks.commands import lineage, succeeded
from benchmarks.results import Row, Target


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the seconds until the help is printed, and until `compare` reads its first byte."""
    empty = bench.scratch.folder / "empty.sig"
    empty.touch()
    commands = {"--help": (lineage("--help"), 0), "compare": (lineage("compare", empty, empty), 2)}
    taken = interleaved({name: partial(_run, *command) for name, command in commands.items()}, bench.plan.rounds)
    empty.unlink()
    yield Row(
        "start-up of hf-lineage --help",
        Target(high=0.4),
        statistics.median(taken["--help"]),
        "s",
        f"whole command, cold process; {bench.medians()}",
    )
    yield Row(
        "start-up of hf-lineage compare",
        Target(high=0.8),
        statistics.median(taken["compare"]),
        "s",
        "whole command, cold process: it imports what comparing takes, opens an empty file as a signature and fails "
        f"at its first byte; {bench.medians()}",
    )


def _run(command: list[str], code: int) -> None:
    succeeded(cold(command), codes=(code,))
