"""Start-up: what it takes until the command does something."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from functools import partial

from benchmarks.cases.bench import Bench
from benchmarks.clock import cold, interleaved
from benchmarks.commands import lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.writing import write_empty


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the seconds until the help is printed, and until the first byte of a signature or of weights is read."""
    empty, model = bench.scratch.folder / "empty.sig", bench.scratch.folder / "empty"
    empty.touch()
    write_empty(bench.plan.shapes["7B"], model)
    commands = {
        "--help": (lineage("--help"), 0),
        "compare": (lineage("compare", empty, empty), 2),
        "check": (lineage("check", model, "--base", model), 2),
    }
    taken = interleaved({name: partial(_run, *command) for name, command in commands.items()}, bench.plan.rounds)
    empty.unlink()
    shutil.rmtree(model)
    yield Row(
        "start-up of hf-lineage --help",
        Target(high=0.4),
        statistics.median(taken["--help"]),
        "s",
        f"whole command, cold process; {bench.medians()}",
    )
    yield Row(
        "start-up of hf-lineage compare",
        Target(high=0.4),
        statistics.median(taken["compare"]),
        "s",
        "whole command, cold process: it imports what comparing takes, opens an empty file as a signature and fails "
        f"at its first byte; {bench.medians()}",
    )
    yield Row(
        "start-up to the first byte of weights, check of a local model",
        Target(high=0.4),
        statistics.median(taken["check"]),
        "s",
        "whole command, cold process: it imports what checking takes, reads config.json, looks the class up and fails "
        f"at an empty model.safetensors; {bench.medians()}",
    )


def _run(command: list[str], code: int) -> None:
    succeeded(cold(command), codes=(code,))
