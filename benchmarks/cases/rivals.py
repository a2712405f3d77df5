"""Rival tools on the same two folders: whole commands, each in a cold process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases.bench import Bench, median
from benchmarks.clock import Run, cold, interleaved, ratio
from benchmarks.commands import environment, lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.rivals import RIVALS, Rival, installed
from benchmarks.shapes import Model, Plan

TARGET, UNIT = Target(low=1.0), "× faster"


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a related pair of 1.3B."""
    return plan.model("1.3B").pair


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how much faster than each rival `hf-lineage compare` is."""
    a, b = map(bench.scratch.model, models(bench.plan))
    for rival in RIVALS:
        yield _row(bench, rival, a, b)


def _row(bench: Bench, rival: Rival, a: Path, b: Path) -> Row:
    what = f"compare two 1.3B folders, next to {rival.command}"
    if bench.rivals is None:
        return Row(what, TARGET, None, UNIT, "not measured: --rivals installs it and measures")
    found = installed(rival, bench.rivals)
    if found is None:
        return Row(what, TARGET, None, UNIT, f"not measured: {rival.package} could not be installed")
    home = bench.scratch.folder / "home"
    home.mkdir(exist_ok=True)
    last: dict[str, Run] = {}

    def run(name: str, command: list[str]) -> None:
        last[name] = succeeded(cold(command, environment(home)))

    commands = {
        "ours": lineage("compare", a, b),
        "theirs": rival.compare(found, a, b),
    }
    rounds = bench.plan.slow_rounds if rival.slow else bench.plan.rounds
    taken = interleaved({name: partial(run, name, command) for name, command in commands.items()}, rounds)
    sizes = {name: f"{done.peak / 1e6:.0f} MB" for name, done in last.items()}
    return Row(
        what,
        TARGET,
        ratio(taken["theirs"], taken["ours"]),
        UNIT,
        f"ours {median(taken['ours'])} and {sizes['ours']}, which reads every weight of the mlp path; "
        f"{rival.package} {median(taken['theirs'])} and {sizes['theirs']}; medians of {rounds}, caches empty",
    )
