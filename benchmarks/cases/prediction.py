"""70B as predicted from 7B: two layers are written, and the rest is the same again."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan, Shape


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a 7B as deep as the 70B is written, and the 70B."""
    large = plan.model("70B")
    return plan.model("7B", large.shape.layers), large


def rows(bench: Bench) -> Iterator[Row]:
    """Yield how far time and memory are from the prediction."""
    small, large = models(bench.plan)
    folders = {model: bench.scratch.model(model) for model in (small, large)}
    taken = isolated(tasks.times, [(folder, tasks.PROBES) for folder in folders.values()], bench.plan.rounds)
    factor = large.shape.mlp_elements / small.shape.mlp_elements
    ratios = [after / before / factor for before, after in zip(*taken, strict=True)]
    layers = large.shape.published_layers
    seconds = [statistics.median(times) / large.shape.layers * layers for times in taken]
    yield Row(
        "time of 70B, off what 7B predicts",
        Target(high=20),
        100 * abs(statistics.median(ratios) - 1),
        "%",
        f"{layers} layers: {duration(seconds[1])} extrapolated from {large.shape.layers}, predicted "
        f"{duration(seconds[0] * factor)} (d h a layer, {factor:.2f} times that of 7B); {bench.medians()}",
    )
    peaks = [isolated(tasks.peak_of_extraction, folder) for folder in folders.values()]
    predicted = stored(large.shape) + (peaks[0] - stored(small.shape)) * large.shape.width / small.shape.width
    yield Row(
        "peak memory of 70B, off what 7B predicts",
        Target(high=20),
        100 * abs(peaks[1] / predicted - 1),
        "%",
        f"{peaks[1] / 1e6:.0f} MB, predicted {predicted / 1e6:.0f} MB: one layer's writer as stored, and the "
        f"rest of 7B's {peaks[0] / 1e6:.0f} MB in proportion to the width",
    )


def stored(shape: Shape) -> int:
    """Return the bytes of the one matrix of a layer that is held as a whole; of the others some rows are at a time."""
    return shape.mlp_elements
