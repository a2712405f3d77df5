"""Memory: what extraction and exact comparison add to the process at their peak."""

from collections.abc import Iterator

from benchmarks import tasks
from benchmarks.cases.bench import Bench
from benchmarks.isolated import isolated
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

SHALLOW = 8


def models(plan: Plan) -> tuple[Model, ...]:
    """Return a deep and a shallow 7B, and a pair of 1.3B."""
    return (plan.model("7B"), _shallow(plan), *plan.model("1.3B").pair)


def _shallow(plan: Plan) -> Model:
    return plan.model("7B", min(SHALLOW, max(plan.shapes["7B"].layers // 2, 1)))


def rows(bench: Bench) -> Iterator[Row]:
    """Yield the peak of sketches, whether it depends on the depth, and whether exact mode keeps to its budget."""
    deep, shallow, *pair = models(bench.plan)
    peaks = {model: isolated(tasks.peak_of_extraction, bench.scratch.model(model)) for model in (deep, shallow)}
    yield Row(
        "peak memory above imports, extract 7B",
        Target(high=300.0),
        peaks[deep] / 1e6,
        "MB",
        f"{deep.shape.layers} layers, one process; the matrix of a layer that is held as a whole is "
        f"{deep.shape.mlp_elements / 1e6:.0f} MB of it; no weight is mapped",
    )
    left = {model: peak - _signature(model) for model, peak in peaks.items()}
    yield Row(
        f"peak memory, extract 7B, {deep.shape.layers} layers next to {shallow.shape.layers}",
        Target(high=1.1),
        left[deep] / left[shallow],
        "×",
        f"{peaks[deep] / 1e6:.0f} and {peaks[shallow] / 1e6:.0f} MB; the signatures themselves "
        f"({_signature(deep) / 1e6:.0f} and {_signature(shallow) / 1e6:.0f} MB) are left out of the ratio",
    )
    yield _exact(bench, pair)


def _exact(bench: Bench, pair: list[Model]) -> Row:
    limit, shape = bench.plan.exact_memory, pair[0].shape
    a, b = map(bench.scratch.model, pair)
    measured = isolated(tasks.peak_of_exact_comparison, a, b, f"{limit}MiB") / 2**20
    return Row(
        "peak memory, exact comparison of 1.3B under max-memory",
        Target(high=1.0),
        measured / limit,
        "× limit",
        f"{measured:.0f} MiB with a limit of {limit} MiB, where the exact signatures of the two "
        f"take {2 * 4 * shape.layers * shape.width**2 / 2**20:.0f} MiB; 1.3B instead of 7B spares minutes",
    )


def _signature(model: Model) -> int:
    """Bytes of the sketch: (L, d, k) in float32."""
    return 4 * model.shape.layers * model.shape.width * tasks.PROBES
