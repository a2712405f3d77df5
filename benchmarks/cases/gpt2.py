"""The paper's GPT-2 benchmark: a pair of models next to Re-Basin with scale."""

import statistics
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

PAIRS = 1000


def models(plan: Plan) -> tuple[Model, ...]:
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
        Target(low=20),
        means["Re-Basin"] / means["weights"],
        "× faster",
        f"{note}; ours {duration(means['weights'])}, of which the operations on float32 alone take "
        f"{duration(means['operate'])}: at most {means['Re-Basin'] / means['operate']:.0f} times faster is possible "
        f"on this processor with k = {tasks.PROBES}; {bench.medians()}",
    )
    batch = isolated(tasks.batch_of_scores, parent, child, stranger, PAIRS, bench.plan.rounds)
    a_pair, single = statistics.median(batch["batch"]) / PAIRS, statistics.median(batch["single"])
    yield Row(
        f"a GPT-2 pair between signatures, score alone, in a batch of {PAIRS:,}",
        Target(high=0.12),
        a_pair * 1e3,
        "ms",
        f"{means['Re-Basin'] / a_pair:,.0f} times faster than Re-Basin; a single pair {duration(single)}, with the "
        f"error of the sketch and all that a report says of it {duration(means['signatures'])}; signatures loaded, "
        f"{bench.medians()}",
    )
