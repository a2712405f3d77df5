"""Every line of the table of targets, in an order in which few models lie on the disk at once."""

from benchmarks.cases import compared, executed, extraction, gpt2, startup
from benchmarks.cases.bench import Bench, Case, nothing

__all__ = ["CASES", "Bench", "Case"]

CASES = {
    "extraction": Case(extraction.models, extraction.rows),
    "exact": Case(extraction.exact_models, extraction.exact_rows),
    "executed": Case(executed.models, executed.rows),
    "memory": Case(extraction.memory_models, extraction.memory_rows),
    "stored": Case(nothing, compared.stored_rows),
    "gpt2": Case(gpt2.models, gpt2.rows),
    "rivals": Case(compared.rivals_models, compared.rivals_rows),
    "unrelated": Case(compared.unrelated_models, compared.unrelated_rows),
    "mixtures": Case(compared.mixtures_models, compared.mixtures_rows),
    "gpu": Case(extraction.gpu_models, extraction.gpu_rows),
    "startup": Case(nothing, startup.rows),
}
