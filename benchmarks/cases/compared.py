"""Whole commands that compare models: beside rivals, UNRELATED beside VERIFIED, of mixtures, and of signatures."""

import os
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration, in_turn, median
from benchmarks.clock import Run, Seconds, cold, interleaved, ratio
from benchmarks.commands import environment, lineage, succeeded
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.rivals import RIVALS, Rival, installed
from benchmarks.shapes import Model, Plan
from benchmarks.writing import write_signatures

UNIT = "× faster"


class Duel(NamedTuple):
    """One row: how much faster than a rival two models of a size have to be compared."""

    size: str
    rival: Rival
    low: float
    options: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        full = ", all layers" if self.options else ""
        return f"compare two {self.size} folders{full}, next to {self.rival.command}"


MODELDNA, PROVENANCEKIT = RIVALS
DUELS = (
    Duel("1.3B", MODELDNA, 1.5),
    Duel("1.3B", MODELDNA, 1.0, ("--budget", "full")),
    Duel("7B", MODELDNA, 2.0),
    Duel("1.3B", PROVENANCEKIT, 20.0),
)


def rivals_models(plan: Plan) -> tuple[Model, ...]:
    return tuple(model for size in dict.fromkeys(duel.size for duel in DUELS) for model in plan.model(size).pair)


def rivals_rows(bench: Bench) -> Iterator[Row]:
    for duel in DUELS:
        yield _row(bench, duel)


def _row(bench: Bench, duel: Duel) -> Row:
    rival, target = duel.rival, Target(low=duel.low)
    if bench.rivals is None:
        return Row(duel.what, target, None, UNIT, "not measured: --rivals installs it and measures")
    found = installed(rival, bench.rivals)
    if found is None:
        return Row(duel.what, target, None, UNIT, f"not measured: {rival.package} could not be installed")
    a, b = map(bench.scratch.model, bench.plan.model(duel.size).pair)
    commands = {"ours": (lineage("compare", a, b, *duel.options), 0), "theirs": (rival.compare(found, a, b), 0)}
    rounds = bench.plan.slow_rounds if rival.slow else bench.plan.rounds
    taken, last = in_turn(bench, commands, rounds)
    sizes = {name: f"{done.peak / 1e6:.0f} MB" for name, done in last.items()}
    read = "reads every weight of the mlp path" if duel.options else "stops reading when the verdict is clear"
    note = (
        f"ours {median(taken['ours'])} and {sizes['ours']}, which {read}; "
        f"{rival.package} {median(taken['theirs'])} and {sizes['theirs']}; medians of {rounds}, caches empty"
    )
    return Row(duel.what, target, ratio(taken["theirs"], taken["ours"]), UNIT, note)


MOST_OF_RIVAL = {"1.3B": 1.5, "7B": 3.0}  # by size, how many times as long as the rival an answer may take
BASE = "bench/base"
CARD = f"---\nbase_model: {BASE}\n---\n"
MEMORY = 600.0  # MB above imports, of two 7B
DRAWS, LONGEST = 40, 1.5  # draws of layers of one pair, and how many times the usual time the slowest of them may take


def unrelated_models(plan: Plan) -> tuple[Model, ...]:
    return tuple(model for size in MOST_OF_RIVAL for model in plan.model(size).family)


def unrelated_rows(bench: Bench) -> Iterator[Row]:
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


NAMES = ("Mixtral-8x7B", "Qwen3-30B-A3B", "gpt-oss-20b")
SLOWEST = 2.0
"""How many times as long as VERIFIED by all layers an UNRELATED may take: all layers are read, there are only a few."""
MOST = 1.5  # GB above imports: the writers of one layer of experts in memory, and some units of both


def mixtures_models(plan: Plan) -> tuple[Model, ...]:
    return tuple(model for name in NAMES for model in plan.model(name).family)


def mixtures_rows(bench: Bench) -> Iterator[Row]:
    """Yield for each shape what UNRELATED takes next to VERIFIED by all layers, and its peak of memory."""
    imports = succeeded(cold(lineage("--version"))).peak
    for name in NAMES:
        shape = bench.plan.model(name).shape
        base, child, independent = map(bench.scratch.model, bench.plan.model(name).family)
        commands = {
            "related": (lineage("compare", base, child, "--budget", "full"), 0),
            "unrelated": (lineage("compare", base, independent, "--budget", "full"), 1),
        }
        taken, last = in_turn(bench, commands, bench.plan.slow_rounds)
        layers = f"{shape.layers} of {shape.published_layers} layers, {shape.experts} experts of {shape.hidden} units"
        note = f"{median(taken['unrelated'])}, VERIFIED {median(taken['related'])}; {layers}"
        slower = ratio(taken["unrelated"], taken["related"])
        yield Row(f"compare two {name}, UNRELATED, next to VERIFIED", Target(high=SLOWEST), slower, "×", note)
        peaks = {case: (one.peak - imports) / 1e9 for case, one in last.items()}
        note = f"VERIFIED {peaks['related']:.2g} GB; one model has {shape.bytes / 1e9:.2g} GB"
        yield Row(
            f"peak memory above imports, two {name}, UNRELATED", Target(high=MOST), peaks["unrelated"], "GB", note
        )


PERMUTATIONS = 999
OTHERS = 9  # signatures of independent models that are written; a hundred would take 3.4 GB
HUNDRED = 100


def stored_rows(bench: Bench) -> Iterator[Row]:
    folder = bench.scratch.folder / "signatures"
    shape = bench.plan.shapes["7B"]
    isolated(write_signatures, folder, shape, OTHERS)
    files = folder / "a.sig", folder / "b.sig"
    command = lineage("compare", *files)
    taken = interleaved({"whole": lambda: succeeded(cold(command))}, bench.plan.rounds)["whole"]
    run = cold(command)
    yield Row(
        f"compare two stored 7B signatures, {PERMUTATIONS} permutations",
        Target(high=1.5),
        statistics.median(taken),
        "s",
        f"whole command, cold process, {shape.layers} layers; peak memory {run.peak / 1e6:.0f} MB; {bench.medians()}",
    )
    many = [files[1], *(folder / f"{number % OTHERS}.sig" for number in range(HUNDRED - 1))]
    taken = isolated(tasks.against_many, files[0], many, bench.plan.slow_rounds)
    yield Row(
        f"{HUNDRED} stored 7B signatures against one, tests included",
        Target(high=10.0),
        statistics.median(taken),
        "s",
        f"each is loaded and judged; one is related, {HUNDRED - 1} are not and end after some 40 permutations; of the "
        f"independent ones {OTHERS} files are read in turn; medians of {bench.plan.slow_rounds}",
    )
    test = isolated(tasks.permutation_test, *files, PERMUTATIONS, bench.plan.rounds)
    note = f"both signatures loaded; {bench.medians()}"
    yield Row("of which the permutation test, in process", Target(high=1.0), statistics.median(test), "s", note)
