"""Every line of the table of targets, in an order in which few models lie on the disk at once."""

from benchmarks.cases import (
    exact,
    executed,
    extraction,
    gpt2,
    gpu,
    memory,
    mixtures,
    rivals,
    startup,
    stored,
    unrelated,
)
from benchmarks.cases.bench import Bench, Case, nothing

__all__ = ["CASES", "Bench", "Case"]

CASES = {
    "extraction": Case(extraction.models, extraction.rows),
    "exact": Case(exact.models, exact.rows),
    "executed": Case(executed.models, executed.rows),
    "memory": Case(memory.models, memory.rows),
    "stored": Case(nothing, stored.rows),
    "gpt2": Case(gpt2.models, gpt2.rows),
    "rivals": Case(rivals.models, rivals.rows),
    "unrelated": Case(unrelated.models, unrelated.rows),
    "mixtures": Case(mixtures.models, mixtures.rows),
    "gpu": Case(gpu.models, gpu.rows),
    "startup": Case(nothing, startup.rows),
}
