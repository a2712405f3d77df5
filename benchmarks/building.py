"""Building: how long an index of many models takes, and whether a build that is killed gives the same as another.

`python -m benchmarks.building` prints it as a table and writes it to `results/building.json`. Two hundred tiny models
are on the small Hub of the tests; the index is built by one process, by several, by Ray, and by a run that is killed
halfway and a second one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from benchmarks.isolated import ROOT
from benchmarks.machine import machine
from benchmarks.results import Row, Target, show
from tests.models import tiny_llama
from tests.server import Hub, serving
from tests.server.client import remote

FILE = Path(__file__).with_name("results") / "building.json"
MODELS = 200
ENGINES = {"local": ("--workers", "2"), "ray": ("--engine", "ray", "--workers", "2")}


def measure(models: int, engines: dict[str, tuple[str, ...]]) -> Iterator[Row]:
    """Yield how long each way to build an index takes, and how far its result is off that of one process."""
    with tempfile.TemporaryDirectory() as scratch, serving() as hub:
        place = Path(scratch)
        for number in range(models):
            hub.publish(f"org/model-{number}", tiny_llama(place / f"model-{number}", seed=number, layers=1))
        names = place / "models.txt"
        names.write_text("\n".join(hub.published) + "\n")
        took = _build(hub, place / "one", names)
        yield Row(f"{models} models, one process", Target(), took, "s", "whole command")
        for engine, options in engines.items():
            took = _build(hub, place / engine, names, *options)
            off = _unlike(place / "one", place / engine)
            yield Row(f"{models} models, {engine}", Target(), took, "s", f"whole command, {' '.join(options)}")
            yield Row(f"{models} models, {engine}: files that differ", Target(high=0), off, "", "to the byte")
        done = _killed(hub, place / "killed", names, models)
        took = _build(hub, place / "killed", names)
        off = _unlike(place / "one", place / "killed")
        note = f"killed after {done} models, with two workers"
        yield Row(f"{models} models, the rest after a kill", Target(), took, "s", note)
        yield Row(f"{models} models, after a kill: files that differ", Target(high=0), off, "", note)


def _build(hub: Hub, index: Path, names: Path, *options: str) -> float:
    """The seconds that a build takes."""
    began = time.perf_counter()
    subprocess.run(_command(index, names, *options), cwd=ROOT, env=_environment(hub, index), stdout=-3, check=True)
    return time.perf_counter() - began


def _killed(hub: Hub, index: Path, names: Path, models: int) -> int:
    """How many models were in an index when its build was killed."""
    command = _command(index, names, *ENGINES["local"])
    running = subprocess.Popen(command, cwd=ROOT, env=_environment(hub, index), stdout=subprocess.DEVNULL)
    while len(_files(index)) < 3 * models // 2 and running.poll() is None:  # three files for each model
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    return len(list((index / "signatures").rglob("*.safetensors")))


def _command(index: Path, names: Path, *options: str) -> list[str]:
    arguments = ["index", "build", "--from", str(names), "--index", str(index), *options]
    return [sys.executable, "-m", "hf_lineage.cli", *arguments]


def _environment(hub: Hub, index: Path) -> dict[str, str]:
    return remote(hub, index.with_name(f"{index.name}-home"))


def _files(index: Path) -> dict[str, bytes]:
    return {
        file.relative_to(index).as_posix(): file.read_bytes()
        for folder in ("keys", "signatures")
        for file in (index / folder).rglob("*.*")
        if not file.name.startswith(".")
    }


def _unlike(one: Path, other: Path) -> int:
    return len(_files(one).items() ^ _files(other).items())


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE, show_default=True)
@click.option("--models", default=MODELS, show_default=True, help="Models of the index.")
def main(output: Path, models: int) -> None:
    """Build an index in several ways."""
    rows = list(measure(models, ENGINES))
    show(rows, Console())
    document = {
        "command": "python -m benchmarks.building",
        "machine": machine(),
        "rows": [row.as_json() for row in rows],
    }
    output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
