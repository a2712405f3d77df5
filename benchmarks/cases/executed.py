"""Executed: what `--run` takes of a 1.3B, where it fits into memory and where layers are read from disk."""

import math
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.bench import Bench, duration
from benchmarks.isolated import isolated, isolated_on_gpu
from benchmarks.results import Row, Target
from benchmarks.shapes import Model, Plan, Shape
from benchmarks.tasks import graphics

LIMIT = 4  # GiB that `max-memory` allows where layers are to be read from disk: two of them are for torch and inputs
TOKENS = 32 * 16 + 1024  # tokens of the two passes of a run
ROUNDS = 3


def models(plan: Plan) -> tuple[Model, ...]:
    return plan.model("1.3B").pair


def rows(bench: Bench) -> Iterator[Row]:
    """Yield seconds beside the roofline of one forward pass, memory beside the bound, and a whole comparison."""
    base, child = models(bench.plan)
    folders, shape = (bench.scratch.model(base), bench.scratch.model(child)), base.shape
    for words, limit in (("in memory", None), ("from disk", f"{LIMIT}GiB")):
        taken, peak, dtype, on_disk = isolated(run, folders[0], limit)
        least = isolated(roofline, shape, dtype)
        note = (
            f"{duration(taken)} to load and run it in {dtype}, 2 passes, {on_disk / 1e9:.2g} GB of weights read "
            f"from disk in each; one pass over {TOKENS} tokens cannot take less than {duration(least)}; once"
        )
        yield Row(f"run 1.3B {words}, next to one forward pass", Target(), taken / least, "× roofline", note)
        if limit:
            note = f"{peak / 2**30:.2f} GiB, mapped files included; the weights take {shape.bytes / 2**30:.2f} GiB"
            yield Row("peak memory, run 1.3B under max-memory", Target(high=1.0), peak / 2**30 / LIMIT, "× limit", note)
    seconds, words, lost = isolated(compare_run, *folders, f"{LIMIT}GiB")
    note = f"{words}, without what is common {lost}; layers from disk"
    yield Row("compare two 1.3B, --run, from disk", Target(), seconds / 60, "min", note)
    if isolated_on_gpu(graphics) is None:
        yield Row("run 7B on a GPU", Target(), None, "× roofline", "not measured: no GPU here")


def run(folder: Path, limit: str | None) -> tuple[float, int, str, int]:
    """Return the seconds of loading and running a model, the peak of its process, its numbers, bytes on disk."""
    from hf_lineage import Options
    from hf_lineage.hub.repo import resolve
    from hf_lineage.source.model import open_model
    from hf_lineage.source.run import run_model

    options = Options(run=True, seed=0, max_memory=limit)
    model, start = open_model(resolve(str(folder)), options), time.perf_counter()
    with run_model(model, model, options) as done:
        taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return taken, peak, done.ran.dtype, done.ran.on_disk


def roofline(shape: Shape, dtype: str) -> float:
    """Return the seconds of the operations of one pass, each as fast as those of one matrix of an MLP."""
    import torch

    matrix = torch.ones(shape.hidden, shape.width, dtype=getattr(torch, dtype))
    tokens, times = torch.ones(TOKENS, shape.width, dtype=matrix.dtype), []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _ = tokens @ matrix.mT
        times.append(time.perf_counter() - start)
    numbers = shape.layers * sum(map(math.prod, shape.layer.values())) + shape.vocabulary * shape.width
    return min(times) * numbers / matrix.numel()


def compare_run(base: Path, child: Path, limit: str) -> tuple[float, str, str]:
    """Return the seconds of a comparison with `--run`, its verdict, and what is lost without what is common."""
    from hf_lineage import Options, compare

    start = time.perf_counter()
    (row,) = compare(str(base), str(child), Options(run=True, seed=0, max_memory=limit)).rows
    executed = row.verdict.executed
    lost = executed.ablation.amount if executed and executed.ablation else executed and executed.problem
    said = f"{row.verdict.label}{', executed' if row.verdict.is_executed else ''}"
    return time.perf_counter() - start, said, str(lost)
