"""Mixtures: time and memory of VERIFIED and UNRELATED for models of experts in the shapes of three that are public."""

from collections.abc import Iterator

from benchmarks.cases.bench import Bench, in_turn, median
from benchmarks.clock import cold, ratio
from benchmarks.commands import lineage, succeeded
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

NAMES = ("Mixtral-8x7B", "Qwen3-30B-A3B", "gpt-oss-20b")
LONGEST = 2.0
"""How many times as long as VERIFIED by all layers an UNRELATED may take: all layers are read, there are only a few."""
MOST = 1.5
"""GB above imports: the writers of one layer of experts in memory, and some units of both."""


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a base, its child and an independent model of each shape."""
    return tuple(model for name in NAMES for model in plan.model(name).family)


def rows(bench: Bench) -> Iterator[Row]:
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
        yield Row(f"compare two {name}, UNRELATED, next to VERIFIED", Target(high=LONGEST), slower, "×", note)
        peaks = {case: (one.peak - imports) / 1e9 for case, one in last.items()}
        note = f"VERIFIED {peaks['related']:.2g} GB; one model has {shape.bytes / 1e9:.2g} GB"
        yield Row(
            f"peak memory above imports, two {name}, UNRELATED", Target(high=MOST), peaks["unrelated"], "GB", note
        )
