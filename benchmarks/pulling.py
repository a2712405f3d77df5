"""Pulling: how much memory `index pull` takes, of the process itself and of the one that reads foreign files for it.

`python -m benchmarks.pulling --rows 1000000` prints it; the index is served by the small Hub of the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.search import build
from hf_lineage.index.key import BITS
from tests.server import serving
from tests.server.client import remote

NAME = "wren/index"
CODE = """
import re, resource, sys, time
from hf_lineage.cli import main
begun = time.monotonic()
code = main(["index", "pull", sys.argv[1], "--index", sys.argv[2]])
took = time.monotonic() - begun
own = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)  # ru_maxrss has that of who began it
print(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, took)
sys.exit(code)
"""


@dataclass(frozen=True)
class Pull:
    """What one pull took."""

    stored: int
    """Bytes of the files of keys."""
    own: int
    """KiB that the process held at most."""
    reader: int
    """KiB that the process that reads foreign files held at most."""
    seconds: float


def measured(rows: int, scratch: Path) -> Pull:
    """Pull an index of so many rows; raise CalledProcessError if that fails."""
    build(scratch / "repo", np.zeros((0, BITS // 8), np.uint8), rows)
    with serving() as hub:
        hub.publish(NAME, scratch / "repo")
        command = [sys.executable, "-c", CODE, NAME, str(scratch / "index")]
        done = subprocess.run(command, env=remote(hub, scratch / "home"), stdout=subprocess.PIPE, text=True, check=True)
    told, figures = done.stdout.splitlines()
    if not told.endswith(f": {rows} entries added, {rows} in it"):
        raise RuntimeError(told)
    own, reader, seconds = figures.split()
    stored = sum(file.stat().st_size for file in (scratch / "index").rglob("*.parquet"))
    return Pull(stored, int(own), int(reader), float(seconds))


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Of the index that is pulled.")
def main(rows: int) -> None:
    """Pull an index, and print the peaks of both processes."""
    with tempfile.TemporaryDirectory() as scratch:
        pull = measured(rows, Path(scratch))
    click.echo(
        f"{rows:,} rows, {pull.stored / 1e6:.0f} MB: {pull.own >> 10} MiB at most, and {pull.reader >> 10} MiB in the "
        f"process that reads foreign files; {pull.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
