"""A cold disk: what comparing costs when the system has none of the weights in its memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cases.bench import Bench, median
from benchmarks.clock import Seconds, cold, ratio
from benchmarks.commands import lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

BUDGETS = ("quick", "full")


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a related pair."""
    return plan.model("1.3B").pair


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how much longer each kind of comparison takes from a cold disk."""
    folders = [bench.scratch.model(model) for model in models(bench.plan)]
    for budget in BUDGETS:
        # The same layers are drawn in every run, so that the second run finds them in memory.
        command = lineage("compare", *folders, "--budget", budget, "--seed", "0")
        taken: dict[str, Seconds] = {"cold": [], "warm": []}
        for _ in range(bench.plan.rounds):
            forget(folders)
            for name in taken:
                taken[name].append(succeeded(cold(command)).seconds)
        yield Row(
            f"compare two 1.3B folders, {budget}, cold disk next to warm",
            Target(),
            ratio(taken["cold"], taken["warm"]),
            "× as long",
            f"cold {median(taken['cold'])}, warm {median(taken['warm'])}; {bench.medians()}",
        )


def forget(folders: Sequence[Path]) -> None:
    """Ask the system to drop the weights of some models from its memory."""
    for file in (file for folder in folders for file in folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
