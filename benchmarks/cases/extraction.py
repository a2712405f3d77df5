"""Extraction, on the CPU and a GPU, next to what it cannot do without, next to the exact method, and its memory."""

import statistics
from collections.abc import Iterator

import numpy as np

from benchmarks import tasks
from benchmarks.cases.bench import Bench, duration, median
from benchmarks.clock import Seconds, ratio
from benchmarks.isolated import isolated, isolated_on_gpu
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan

TARGETS = {"125M": Target(), "1.3B": Target(), "7B": Target(high=1.3), "70B": Target()}


def models(plan: Plan) -> tuple[Model, ...]:
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
    return Row(f"extract {model.name}, mlp path, k = {tasks.PROBES}, {device}", target, measured, "× roofline", note)


SIZES = ("1.3B", "7B", "70B")
ROUNDING = 1e-4  # how far a sketch may be off that of the CPU, as a share of its norm: both are sums in float32


def gpu_models(plan: Plan) -> tuple[Model, ...]:
    return tuple(plan.model(name) for name in SIZES)


def gpu_rows(bench: Bench) -> Iterator[Row]:
    """Yield how fast each size is extracted, and how far the numbers are off those of the CPU."""
    gpu = isolated_on_gpu(tasks.graphics)
    if gpu is None:
        yield Row("extraction on a GPU", Target(), None, "× roofline", "not measured: no GPU here")
        return
    for model in gpu_models(bench.plan):
        folder = bench.scratch.model(model)
        taken = isolated_on_gpu(tasks.times_and_limits, folder, bench.plan.rounds)
        (cpu,) = isolated(tasks.times, [(folder, tasks.PROBES)], bench.plan.rounds)
        yield row(bench, model, gpu, taken, Target())
        seconds = [statistics.median(times) for times in (cpu, taken["extract"])]
        note = f"CPU {duration(seconds[0])}, {gpu} {duration(seconds[1])}; {bench.medians()}"
        yield Row(f"extract {model.name}, GPU next to CPU", Target(), seconds[0] / seconds[1], "× faster", note)
        here, there = isolated(tasks.sketch, folder), isolated_on_gpu(tasks.sketch, folder)
        off = float(np.linalg.norm(here - there) / np.linalg.norm(here))
        note = "the whole sketch of all layers"
        yield Row(f"sketch of {model.name}, GPU off CPU", Target(high=ROUNDING), off, "of its norm", note)


LAYERS = 2


def exact_models(plan: Plan) -> tuple[Model, ...]:
    return plan.model("7B", LAYERS).pair


def exact_rows(bench: Bench) -> Iterator[Row]:
    """Yield the ratio of the times and the distance of the scores."""
    a, b = map(bench.scratch.model, exact_models(bench.plan))
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


SHALLOW = 8


def memory_models(plan: Plan) -> tuple[Model, ...]:
    return (plan.model("7B"), _shallow(plan), *plan.model("1.3B").pair)


def _shallow(plan: Plan) -> Model:
    return plan.model("7B", min(SHALLOW, max(plan.shapes["7B"].layers // 2, 1)))


def memory_rows(bench: Bench) -> Iterator[Row]:
    """Yield the peak of sketches, whether it depends on the depth, and whether exact mode keeps to its budget."""
    deep, shallow, *pair = memory_models(bench.plan)
    peaks = {model: isolated(tasks.peak_of_extraction, bench.scratch.model(model)) for model in (deep, shallow)}
    note = (
        f"{deep.shape.layers} layers, one process; the matrix of a layer that is held as a whole is "
        f"{deep.shape.mlp_elements / 1e6:.0f} MB of it; no weight is mapped"
    )
    yield Row("peak memory above imports, extract 7B", Target(high=300.0), peaks[deep] / 1e6, "MB", note)
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
