"""Growth: how the time of extraction grows with each size, as the slope of log time over log size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan, growing

SIZES = {"layers": "L", "hidden": "h", "width": "d"}
PROBES = (512, 1024, 2048)
"""Large ones: below a few hundred reading the weights outweighs the arithmetic, and the time hardly grows with k."""


def models(plan: Plan) -> tuple[Model, ...]:
    """Return three models for each size, each twice the one before in that size alone."""
    return tuple(model for size in SIZES for model in growing(plan, size))


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the exponent of each size, and of the number of probes."""
    for size, letter in SIZES.items():
        grown = [_Point(getattr(model.shape, size), model, tasks.PROBES) for model in growing(bench.plan, size)]
        yield _row(bench, letter, grown)
    middle = list(growing(bench.plan, "width"))[1]
    probes = (max(k // bench.plan.shrink, 2) for k in PROBES)
    yield _row(bench, "k", [_Point(k, middle, k) for k in probes])


class _Point(NamedTuple):
    """A size, the model that has it, and the number of probes."""

    size: int
    model: Model
    probes: int


def _row(bench: Bench, letter: str, grown: Sequence[_Point]) -> Row:
    subjects = [(bench.scratch.model(point.model), point.probes) for point in grown]
    taken = isolated(tasks.times, subjects, bench.plan.rounds)
    pairs = [(point.size, statistics.median(seconds)) for point, seconds in zip(grown, taken, strict=True)]
    return Row(
        f"growth of extraction with {letter}",
        Target(0.85, 1.15),
        exponent(pairs),
        "exponent",
        f"{', '.join(f'{letter} = {size}: {duration(seconds)}' for size, seconds in pairs)}; {bench.medians()}",
    )


def exponent(pairs: Sequence[tuple[int, float]]) -> float:
    """Return the slope of the line through the logarithms of sizes and times."""
    sizes, seconds = zip(*pairs, strict=True)
    return statistics.linear_regression([*map(math.log, sizes)], [*map(math.log, seconds)]).slope
