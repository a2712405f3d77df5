"""Unrelated: what an answer of UNRELATED takes beside VERIFIED by all layers, and beside a rival; whole commands."""

import os
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.bench import Bench, duration, in_turn, median
from benchmarks.clock import Run, Seconds, cold, ratio
from benchmarks.commands import environment, lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.rivals import RIVALS, installed
from benchmarks.shapes import Model, Plan

MODELDNA = RIVALS[0]
MOST_OF_RIVAL = {"1.3B": 1.5, "7B": 3.0}
"""By size, how many times as long as the rival an answer may take."""
BASE = "bench/base"
CARD = f"---\nbase_model: {BASE}\n---\n"
MEMORY = 600.0
"""MB above imports, of two 7B."""
DRAWS, LONGEST = 40, 1.5
"""Draws of layers of one pair, and how many times the usual time the slowest of them may take."""


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a base, its child and an independent model of each size."""
    return tuple(model for size in MOST_OF_RIVAL for model in plan.model(size).family)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the time of `check` and `compare` beside that of all layers of a related pair and of a rival."""
    imports = succeeded(cold(lineage("--version"))).peak
    for size in MOST_OF_RIVAL:
        taken, last = _measured(bench, size)
        for command in ("check", "compare"):
            note = (
                f"{median(taken[command])} and {last[command].peak / 1e6:.0f} MB for UNRELATED, "
                f"{median(taken['all layers'])} for VERIFIED by all layers; {bench.medians()}"
            )
            slower = ratio(taken[command], taken["all layers"])
            yield Row(f"{command} two {size} folders, UNRELATED, next to VERIFIED", Target(high=1.0), slower, "×", note)
            yield _beside_rival(command, size, taken)
        peak = max(last[command].peak for command in ("check", "compare")) - imports
        yield Row(
            f"peak memory above imports, two {size} folders, UNRELATED", Target(high=MEMORY), peak / 1e6, "MB", ""
        )
    yield _slowest(bench)


def _slowest(bench: Bench) -> Row:
    """The slowest of many draws of the layers and coordinates of one pair, by the usual one."""
    base, _, independent = map(bench.scratch.model, bench.plan.model("1.3B").family)
    draws = DRAWS // bench.plan.shrink
    compared = (lineage("compare", base, independent, "--seed", seed) for seed in range(draws))
    runs = [succeeded(cold(command, environment(bench.scratch.home)), (1,)) for command in compared]
    taken = [run.seconds for run in runs]
    usual, late = statistics.median(taken), sum(seconds > LONGEST * statistics.median(taken) for seconds in taken)
    note = (
        f"usually {duration(usual)}, at most {duration(max(taken))} and {max(run.peak for run in runs) / 1e6:.0f} MB; "
        f"{late} of {draws} took more than {LONGEST} times the usual"
    )
    what = f"compare two 1.3B folders, UNRELATED, slowest of {draws} draws next to the usual"
    return Row(what, Target(high=LONGEST), max(taken) / usual, "×", note)


def _beside_rival(command: str, size: str, taken: dict[str, Seconds]) -> Row:
    what, target = (
        f"{command} two {size} folders, UNRELATED, next to {MODELDNA.command}",
        Target(high=MOST_OF_RIVAL[size]),
    )
    if "rival" not in taken:
        return Row(what, target, None, "×", "not measured: --rivals installs it and measures")
    note = f"{median(taken[command])} and {median(taken['rival'])}"
    return Row(what, target, ratio(taken[command], taken["rival"]), "×", note)


def _measured(bench: Bench, size: str) -> tuple[dict[str, Seconds], dict[str, Run]]:
    """What each command takes in each round, and its last run; `check` finds the base in a Hub on this disk.

    Three models of 7B do not fit into the page cache of most machines, so that each command follows itself.
    """
    base, child, independent = map(bench.scratch.model, bench.plan.model(size).family)
    hub = bench.scratch.folder / f"hub-{size}"
    declared = _linked(base, hub / BASE).parent / "independent"
    (_linked(independent, declared) / "README.md").write_text(CARD, encoding="utf-8")
    commands = {
        "all layers": (lineage("compare", base, child, "--budget", "full"), 0),
        "check": (lineage("check", declared, "--local-hub", hub), 1),
        "compare": (lineage("compare", base, independent), 1),
    }
    if bench.rivals is not None and (found := installed(MODELDNA, bench.rivals)) is not None:
        commands["rival"] = (MODELDNA.compare(found, base, independent), 0)
    return in_turn(bench, commands, bench.plan.rounds, twice=True)


def _linked(model: Path, place: Path) -> Path:
    """The folder of a model at another place, of the same files on disk."""
    if not place.exists():
        shutil.copytree(model, place, copy_function=os.link)
    return place
