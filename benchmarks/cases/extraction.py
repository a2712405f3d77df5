"""Extraction next to what it cannot do without: reading the weights, and the arithmetic of the sketch."""

import statistics
from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.clock import Seconds
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

TARGETS = {"125M": Target(), "1.3B": Target(), "7B": Target(high=1.3), "70B": Target()}


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a model of each size."""
    return tuple(plan.model(name) for name in TARGETS)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield one row for each size, on the CPU."""
    for model in models(bench.plan):
        taken = isolated(tasks.times_and_limits, bench.scratch.model(model), bench.plan.rounds)
        yield row(bench, model, "CPU", taken, TARGETS[model.name])


def row(bench: Bench, model: Model, device: str, taken: dict[str, Seconds], target: Target) -> Row:
    """Return how many times as long extraction takes as what it cannot do without."""
    rounds = zip(taken["extract"], taken["touch"], taken["operate"], strict=True)
    measured = statistics.median(extract / max(touch, operate) for extract, touch, operate in rounds)
    extract, touch, operate = (statistics.median(taken[name]) for name in ("extract", "touch", "operate"))
    shape = model.shape
    whole = shape.published_layers or shape.layers
    written = (
        "" if whole == shape.layers else f" of {whole}, which would take {duration(extract * whole / shape.layers)}"
    )
    note = (
        f"{duration(extract)} for {shape.layers} layers{written}; reading the bytes {duration(touch)}, "
        f"the operations on float32 in memory {duration(operate)}; {bench.medians()}"
    )
    return Row(
        f"extract {model.name}, mlp path, k = {tasks.PROBES}, {device}",
        target,
        measured,
        "× roofline",
        note,
    )
