"""Watched: what one comparison of two folders costs, as a whole and step by step."""

from __future__ import annotations

import importlib
import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clock import peak

STEPS = {
    "the products of the paths": ("checking.stages", "_signature"),
    "coordinates from tokens": ("checking.units", "by_tokens"),
    "units read, weighed and seen": ("checking.units", "unit_rows"),
    "units described": ("signature.unit_rows", "described"),
    "coordinates fitted, descriptions included": ("signature.fitted_coordinates", "between"),
    "units compared, test included": ("checking.units", "compare_units"),
    "the permutation test": ("evidence.unit_comparison", "order_test"),
    "reading, of all threads, part of the above": ("checkpoint.stored", "read_into"),
}
"""Functions whose time is taken, by module and name."""


@dataclass(frozen=True)
class Cost:
    """What one comparison took, imports included."""

    verdict: str
    frame: str
    seconds: float
    processor: float
    """Seconds of all cores."""
    memory: int
    """Bytes at the peak."""
    read: int
    """Bytes read from files, those that lie in the page cache included."""
    steps: dict[str, tuple[float, float]]
    """By step, seconds and those of all cores."""


def cost(base: Path, candidate: Path) -> Cost:
    """Return what comparing two folders takes, in a process that does nothing else."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    start = time.perf_counter()
    taken = _watched()
    from hf_lineage import Options, compare

    (row,) = compare(str(base), str(candidate), Options(seed=0)).rows
    used = resource.getrusage(resource.RUSAGE_SELF)
    framed = row.verdict.framed
    return Cost(
        row.verdict.label,
        framed.frame.name if framed else "",
        time.perf_counter() - start,
        used.ru_utime + used.ru_stime,
        peak(),
        _bytes_read(),
        {name: (seconds[0], seconds[1]) for name, seconds in taken.items()},
    )


def _watched() -> dict[str, list[float]]:
    """The seconds of every step, by the clock and of all cores, from now on."""
    taken: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, (module, function) in STEPS.items():
        place = importlib.import_module(f"hf_lineage.{module}")
        setattr(place, function, _timed(getattr(place, function), taken[name], threading.Lock()))
    return taken


def _timed(task: Callable[..., Any], taken: list[float], lock: threading.Lock) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        before = time.perf_counter(), time.process_time()
        try:
            return task(*arguments, **named)
        finally:
            with lock:
                taken[0] += time.perf_counter() - before[0]
                taken[1] += time.process_time() - before[1]

    return timed


def _bytes_read() -> int:
    """The bytes that this process has asked files for; Linux counts them."""
    counts = Path("/proc/self/io")
    lines = counts.read_text(encoding="utf-8").splitlines() if counts.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar")), 0)
