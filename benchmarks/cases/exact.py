"""The sketch next to the exact method: how much faster, and how far off."""

from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench, median
from benchmarks.clock import ratio
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

LAYERS = 2


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a related pair of a few layers of a 7B."""
    return plan.model("7B", LAYERS).pair


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the ratio of the times and the distance of the scores."""
    a, b = map(bench.scratch.model, models(bench.plan))
    taken, exact, sketch, error = isolated(tasks.exact_and_sketched, a, b, bench.plan.slow_rounds)
    often = f"medians of {bench.plan.slow_rounds}"
    yield Row(
        "extract 7B, sketch next to exact mode",
        Target(low=10),
        ratio(taken["exact"], taken["sketch"]),
        "× faster",
        f"{LAYERS} layers: exact {median(taken['exact'])}, sketch {median(taken['sketch'])}; {often}",
    )
    yield Row(
        "score of a related pair, sketch off exact mode",
        Target(high=4),
        abs(exact - sketch) / error,
        "standard errors",
        f"exact {exact:.5f}, sketch {sketch:.5f}, stated standard error {error:.1g}",
    )
