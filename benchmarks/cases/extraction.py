"""Extraction next to what it cannot do without: reading the weights, and the arithmetic of the sketch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.clock import Seconds
from benchmarks.isolated import isolated, isolated_on_gpu
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

TARGETS = {"125M": Target(), "1.3B": Target(), "7B": Target(high=1.5), "70B": Target()}


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a model of each size."""
    return tuple(plan.model(name) for name in TARGETS)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield one row for each size on the CPU, and one on the GPU where there is one."""
    gpu = isolated_on_gpu(tasks.graphics)
    for model in models(bench.plan):
        folder = bench.scratch.model(model)
        yield _row(bench, model, "CPU", isolated(tasks.times_and_limits, folder, bench.plan.rounds), gpu)
        if gpu:
            yield _row(bench, model, gpu, isolated_on_gpu(tasks.times_and_limits, folder, bench.plan.rounds), gpu)


def _row(bench: Bench, model: Model, device: str, taken: dict[str, Seconds], gpu: str | None) -> Row:
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
        TARGETS[model.name],
        measured,
        "× roofline",
        note if gpu else f"{note}; no GPU here",
    )
