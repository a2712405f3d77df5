"""Time and memory: things to be compared are measured in turn, so that what disturbs one disturbs the other."""

import os
import re
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WATCHED = 0.01  # seconds between two looks at the memory of a command
Seconds = list[float]  # what one thing took in each round


def interleaved(tasks: Mapping[str, Callable[[], object]], rounds: int, twice: bool = False) -> dict[str, Seconds]:
    """Return the seconds of each task in each round, all of them in turn, after a first round that warms the caches.

    Where the files of all tasks do not fit into the page cache, each is done `twice` and timed the second time.
    """
    taken: dict[str, Seconds] = {name: [] for name in tasks}
    for number in range(rounds + (not twice)):
        for name, task in tasks.items():
            if twice:
                task()
            start = time.perf_counter()
            task()
            if number or twice:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio(above: Seconds, below: Seconds) -> float:
    """Return the median over the rounds of one thing's time by another's of the same round."""
    return statistics.median(over / under for over, under in zip(above, below, strict=True))


def peak(process: int | str = "self") -> int:
    """Return the most bytes of memory that a process has held so far; 0 of one that has ended.

    Linux counts what the process that began it held until then as its own in `ru_maxrss`, but not in `VmHWM`.
    """
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if process == "self" else 0
    try:
        status = Path(f"/proc/{process}/status").read_text("ascii")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return 1024 * int(found[1]) if found else 0


@dataclass(frozen=True)
class Run:
    """One command from start to end."""

    seconds: float
    peak: int  # bytes of memory
    code: int
    output: str


def cold(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command in a process of its own; what it prints goes nowhere but into the result."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        seen = [0]
        watching = threading.Thread(target=_watch, args=(process, seen), daemon=True)
        watching.start()
        output = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        watching.join()
    return Run(seconds, seen[0] or usage.ru_maxrss, process.returncode, output.decode(errors="replace"))


def _watch(process: subprocess.Popen[bytes], seen: list[int]) -> None:
    """Note the most memory that a process has held, until it ends."""
    while process.returncode is None:
        seen[0] = max(seen[0], peak(process.pid))
        time.sleep(WATCHED)
