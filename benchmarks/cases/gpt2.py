"""The paper's GPT-2 benchmark: a pair of models next to Re-Basin with scale."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a model, its child, and one that is independent of both."""
    parent, child = plan.model("GPT-2").pair
    return parent, child, replace(parent, name="GPT-2-independent", seed=1)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how much faster a pair is compared, from weights and between stored signatures."""
    parent, child, stranger = map(bench.scratch.model, models(bench.plan))
    pairs = isolated(tasks.pairs_against_rebasin, parent, child, stranger, bench.plan.rounds)
    taken = {name: [sum(times) for times in zip(*(pair[name] for pair in pairs), strict=True)] for name in pairs[0]}
    means = {name: statistics.median(times) / len(pairs) for name, times in taken.items()}
    rival = [duration(statistics.median(pair["Re-Basin"])) for pair in pairs]
    note = (
        f"Re-Basin {rival[0]} for a related pair, {rival[1]} for an independent one, of which the benchmark has about "
        "as many; scores alone, which is all that Re-Basin gives, without the permutation test"
    )
    yield Row(
        "a GPT-2 pair from weights, next to Re-Basin with scale",
        Target(low=76),
        means["Re-Basin"] / means["weights"],
        "× faster",
        f"{note}; ours {duration(means['weights'])}, of which the 4dhkL operations alone take "
        f"{duration(means['multiply'])}: at most {means['Re-Basin'] / means['multiply']:.0f} times faster is possible "
        f"on this processor with k = {tasks.PROBES}; {bench.medians()}",
    )
    yield Row(
        "a GPT-2 pair between signatures, next to Re-Basin with scale",
        Target(low=1000),
        means["Re-Basin"] / means["signatures"],
        "× faster",
        f"ours {duration(means['signatures'])}, both signatures loaded, most of it the overhead of calling "
        f"NumPy, which other work on the machine doubles; {bench.medians()}",
    )
