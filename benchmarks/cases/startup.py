"""Start-up: what it takes until the command does something, and whole checks of small models."""

import shutil
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases.bench import Bench, in_turn
from benchmarks.clock import cold, interleaved
from benchmarks.commands import lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.writing import write_empty

EXAMPLES = Path(__file__).parents[2] / "examples" / "hub"
BASE, CHILD, MANY = "acme/llama-base", "fern/llama-finetune-a", 100


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
    note = f"whole command, cold process; {bench.medians()}"
    yield Row("start-up of hf-lineage --help", Target(high=0.4), statistics.median(taken["--help"]), "s", note)
    note = (
        "whole command, cold process: it imports what comparing takes, opens an empty file as a signature and fails "
        f"at its first byte; {bench.medians()}"
    )
    yield Row("start-up of hf-lineage compare", Target(high=0.4), statistics.median(taken["compare"]), "s", note)
    yield Row(
        "start-up to the first byte of weights, check of a local model",
        Target(high=0.4),
        statistics.median(taken["check"]),
        "s",
        "whole command, cold process: it imports what checking takes, reads config.json, looks the class up and fails "
        f"at an empty model.safetensors; {bench.medians()}",
    )

    yield from _small(bench)


def _small(bench: Bench) -> Iterator[Row]:
    """The check of one model of 2 MB, and of the same files under many names by one command; caches empty at first."""
    hub, model = bench.scratch.folder / "hub", EXAMPLES / CHILD
    for name in (CHILD, *(f"{CHILD}-{number}" for number in range(MANY)), BASE):
        shutil.copytree(EXAMPLES / (BASE if name == BASE else CHILD), hub / name)
    commands = {
        "one": (lineage("check", CHILD, "--local-hub", hub, "--no-cache"), 0),
        "many": (lineage("check", *(f"{CHILD}-{number}" for number in range(MANY)), "--local-hub", hub), 0),
    }
    taken, _ = in_turn(bench, commands, bench.plan.rounds)
    shutil.rmtree(hub)
    size = sum(file.stat().st_size for file in model.glob("*.safetensors"))
    note = f"whole command, cold process, no cache; {size / 1e6:.1f} MB of weights; {bench.medians()}"
    yield Row("check of one small model", Target(high=0.8), statistics.median(taken["one"]), "s", note)
    each = statistics.median(taken["many"]) / MANY
    note = f"whole command, cold process, each model once; {bench.medians()}"
    yield Row(f"check of {MANY} small models, each", Target(high=0.25), each, "s", note)


def _run(command: list[str], code: int) -> None:
    succeeded(cold(command), codes=(code,))
