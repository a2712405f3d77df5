"""Time and memory: things to be compared are measured in turn, so that what disturbs one disturbs the other."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Seconds = list[float]
"""What one thing took in each round."""


def interleaved(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Seconds]:
    """Return the seconds of each task in each round, all of them in turn, after a first round that warms the caches."""
    taken: dict[str, Seconds] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio(above: Seconds, below: Seconds) -> float:
    """Return the median over the rounds of one thing's time by another's of the same round."""
    return statistics.median(over / under for over, under in zip(above, below, strict=True))


def peak() -> int:
    """Return the most bytes of memory that this process has held so far."""
    return _bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


@dataclass(frozen=True)
class Run:
    """One command from start to end."""

    seconds: float
    peak: int
    """Bytes of memory."""
    code: int
    output: str


def cold(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command in a process of its own; what it prints goes nowhere but into the result."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        output = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    return Run(seconds, _bytes(usage.ru_maxrss), process.returncode, output.decode(errors="replace"))


def _bytes(size: int) -> int:
    """Linux says kilobytes where macOS says bytes."""
    return size if sys.platform == "darwin" else 1024 * size
