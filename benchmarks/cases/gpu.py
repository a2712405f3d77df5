"""A GPU next to what it cannot do without, and next to the CPU of the same machine."""

import statistics
from collections.abc import Iterator

import numpy as np

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.cases.extraction import row
from benchmarks.isolated import isolated, isolated_on_gpu
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

SIZES = ("1.3B", "7B", "70B")
ROUNDING = 1e-4
"""How far a sketch may be off that of the CPU, as a share of its norm: both are sums in float32."""


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a model of each size."""
    return tuple(plan.model(name) for name in SIZES)


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how fast each size is extracted, and how far the numbers are off those of the CPU."""
    gpu = isolated_on_gpu(tasks.graphics)
    if gpu is None:
        yield Row("extraction on a GPU", Target(), None, "× roofline", "not measured: no GPU here")
        return
    for model in models(bench.plan):
        folder = bench.scratch.model(model)
        taken = isolated_on_gpu(tasks.times_and_limits, folder, bench.plan.rounds)
        (cpu,) = isolated(tasks.times, [(folder, tasks.PROBES)], bench.plan.rounds)
        yield row(bench, model, gpu, taken, Target())
        seconds = [statistics.median(times) for times in (cpu, taken["extract"])]
        note = f"CPU {duration(seconds[0])}, {gpu} {duration(seconds[1])}; {bench.medians()}"
        yield Row(f"extract {model.name}, GPU next to CPU", Target(), seconds[0] / seconds[1], "× faster", note)
        here, there = isolated(tasks.sketch, folder), isolated_on_gpu(tasks.sketch, folder)
        off = float(np.linalg.norm(here - there) / np.linalg.norm(here))
        yield Row(
            f"sketch of {model.name}, GPU off CPU",
            Target(high=ROUNDING),
            off,
            "of its norm",
            "the whole sketch of all layers",
        )
