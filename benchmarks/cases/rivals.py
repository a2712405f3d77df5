"""Rival tools on the same two folders: whole commands, each in a cold process."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.cases.bench import Bench, in_turn, median
from benchmarks.clock import ratio
from benchmarks.commands import lineage
from benchmarks.results import Row, Target
from benchmarks.rivals import RIVALS, Rival, installed
from benchmarks.shapes import Model, Plan

UNIT = "× faster"


class Duel(NamedTuple):
    """One row: how much faster than a rival two models of a size have to be compared."""

    size: str
    rival: Rival
    low: float
    options: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What is measured."""
        full = ", all layers" if self.options else ""
        return f"compare two {self.size} folders{full}, next to {self.rival.command}"


MODELDNA, PROVENANCEKIT = RIVALS
DUELS = (
    Duel("1.3B", MODELDNA, 1.5),
    Duel("1.3B", MODELDNA, 1.0, ("--budget", "full")),
    Duel("7B", MODELDNA, 2.0),
    Duel("1.3B", PROVENANCEKIT, 20.0),
)


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a related pair of each size."""
    return tuple(model for size in dict.fromkeys(duel.size for duel in DUELS) for model in plan.model(size).pair)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how much faster than each rival `hf-lineage compare` is."""
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
    return Row(
        duel.what,
        target,
        ratio(taken["theirs"], taken["ours"]),
        UNIT,
        f"ours {median(taken['ours'])} and {sizes['ours']}, which {read}; "
        f"{rival.package} {median(taken['theirs'])} and {sizes['theirs']}; medians of {rounds}, caches empty",
    )
