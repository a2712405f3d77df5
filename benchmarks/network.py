"""Network: what `check` moves of a model that is on the Hub, against the small Hub of the tests.

`python -m benchmarks.network` prints it as a table and writes it to `results/network.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from safetensors.torch import load_file, save_file

from benchmarks.isolated import ROOT
from benchmarks.results import Row, Target, show
from benchmarks.shapes import ITEM_SIZES, SHAPES, Model, Shape
from benchmarks.writing import INDEX, write_model
from hf_lineage.checkpoint.stored import header
from hf_lineage.hub.ranges import HEAD
from tests.server import Hub, faults, serving
from tests.server.client import remote

FILE = Path(__file__).with_name("results") / "network.json"
SHAPE = SHAPES["7B"].shrunk(16)
"""All 32 layers, and the shares of embedding, head, attention and MLP that the 7B has."""
SAMPLED = Shape(32, 512, 4096, heads=8, groups=8, head_size=64, vocabulary=4096)
"""The narrowest MLPs of which a sample is taken, in as many layers as the 7B has."""
LATENCY, RATE = 0.05, 20e6
"""Seconds and bytes a second of a link on which the time that bytes take can be seen."""
SHARDS = 3
SEED = 2
"""Seed of the order of layers, so that each run reads the same; one independent model in ten is read completely."""
JUDGED = (0, 1)
"""Exit codes of a command that went well: every claim is related, or one is not."""
BASE, CHILD, INDEPENDENT = "acme/base", "fern/child", "otter/independent"


@dataclass(frozen=True)
class Case:
    """One check: how much it reads, and of which candidate."""

    budget: str
    candidate: str = CHILD

    def __str__(self) -> str:
        return f"{self.budget}, base from its weights" + (", independent" if self.candidate == INDEPENDENT else "")

    @property
    def targets(self) -> dict[str, Target]:
        """The most that may be moved of each model's weights, of its own bytes; so small matrices come in one range."""
        related = {"quick": 0.2, "full": 0.97}[self.budget]
        most = Target(high=related if self.candidate == CHILD else 0.5)
        return {self.candidate: most, BASE: most}


CASES = (Case("quick", candidate=INDEPENDENT), Case("quick"), Case("full"))


def measure(shape: Shape, cases: Sequence[Case] = CASES) -> list[Row]:
    """Return what checks of a child against its base move of both."""
    with tempfile.TemporaryDirectory() as scratch, serving() as hub:
        place = Path(scratch)
        base = Model("base", shape)
        models = {BASE: base, CHILD: replace(base, child=True), INDEPENDENT: Model("independent", shape, seed=1)}
        for name, model in models.items():
            hub.publish(name, written(model, place / model.folder))
        found: list[Row] = []
        for number, case in enumerate(cases):
            hub.forget()
            verdict = checked(hub, place / f"home{number}", case)
            found += rows(hub, case, shape, verdict)
        return found


def over_a_link(shape: Shape, latency: float, rate: float) -> Iterator[Row]:
    """Yield how long checks of models large enough for a sample take over a slow link, next to the link alone."""
    with tempfile.TemporaryDirectory() as scratch, serving() as hub:
        place = Path(scratch)
        base, child = Model("base", shape).pair
        for name, model in ((BASE, base), (CHILD, child)):
            hub.publish(name, written(model, place / model.folder))
        hub.plan(faults.Link(latency, rate), times=10**9)
        for budget in ("quick", "full"):
            hub.forget()
            began = time.perf_counter()
            verdict = checked(hub, place / budget, Case(budget))
            seconds = time.perf_counter() - began
            moved = weights(hub, BASE) + weights(hub, CHILD)
            note = (
                f"{verdict}; {moved / 1e6:.0f} of {2 * shape.bytes / 1e6:.0f} MB in {len(hub.parts)} ranges, for which "
                f"the link alone takes {moved / rate:.2g} s; {latency * 1e3:.0f} ms until an answer begins"
            )
            what = f"{budget}, base from its weights, over {rate / 1e6:.0f} MB/s"
            yield Row(what, Target(), seconds, "s, whole command", note)


def written(model: Model, folder: Path) -> Path:
    """Write a model in a few shards, as models of this size are published."""
    write_model(model, folder)
    files = sorted(folder.glob("*.safetensors"))
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        part = files[number * len(files) // SHARDS : (number + 1) * len(files) // SHARDS]
        tensors = {name: tensor for file in part for name, tensor in load_file(file).items()}
        for file in part:
            file.unlink()
        name = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        save_file(tensors, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    return folder


def checked(hub: Hub, home: Path, case: Case) -> str:
    """Check the candidate in a process of its own with empty caches, and return what comes out and after how much."""
    settings = ("--budget", case.budget, "--seed", str(SEED), "--format", "json")
    said = run(hub, home, "check", case.candidate, "--base", BASE, *settings)
    (claim,) = json.loads(said)["claims"]
    return f"{claim['verdict']} after {claim['paths'][0]['layers_read']} of {claim['layers']} layers"


def run(hub: Hub, home: Path, *arguments: str) -> str:
    """Run the command line against the small Hub, and return what it prints."""
    command = [sys.executable, "-m", "hf_lineage.cli", *arguments]
    environment = remote(hub, home)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in JUDGED:
        raise RuntimeError(done.stderr)
    return done.stdout


def rows(hub: Hub, case: Case, shape: Shape, verdict: str) -> list[Row]:
    """Return what one check moved: shares of both models' bytes, requests, and what came twice."""
    found = []
    for name, target in case.targets.items():
        what, moved = "base" if name == BASE else "candidate", weights(hub, name)
        note = f"{moved} of {shape.bytes} bytes, {shape.layers} layers of width {shape.width}; {verdict}"
        found.append(Row(f"{case}: {what}", target, moved / shape.bytes, "of its own bytes", note))
    asked, ranges = len(hub.requests), len(hub.parts)
    head = max(outside(hub, name) for name in (BASE, case.candidate))
    rows_read = shape.vocabulary if case.candidate == INDEPENDENT else 0
    most = HEAD + rows_read * shape.width * ITEM_SIZES[shape.dtype]
    note = "the first bytes of a file that is opened" + ", and the rows of tokens that both know" * bool(rows_read)
    return [
        *found,
        Row(f"{case}: requests", Target(), asked + ranges, "requests", f"{asked} to the Hub, {ranges} of large files"),
        Row(f"{case}: parts that came twice", Target(high=0), len(hub.twice()), "ranges", "of all files"),
        Row(f"{case}: embedding and head", Target(high=most), head, "bytes", note),
    ]


def weights(hub: Hub, name: str) -> int:
    """Return how many bytes were moved of a model, its small files and what the Hub says of it included."""
    large = sum(part.stop - part.start for part in hub.parts if part.file.startswith(f"{name}/"))
    about = (f"hub/{name}/", f"hub/api/models/{name}/")
    return large + sum(size for path, size in hub.sent.items() if f"{path}/".startswith(about))


def outside(hub: Hub, name: str) -> int:
    """Return how many bytes were moved of matrices that are in no layer."""
    folder = hub.published[name]["main"]
    moved = 0
    for file in folder.glob("*.safetensors"):
        parts = [part for part in hub.parts if part.file == f"{name}/{file.name}"]
        for tensor, info in header(file, file.name):
            if ".layers." not in tensor and len(info.shape) > 1:
                ends = ((max(part.start, info.start), min(part.stop, info.start + info.size)) for part in parts)
                moved += sum(max(stop - start, 0) for start, stop in ends)
    return moved


def document(found: Sequence[Row]) -> Mapping[str, object]:
    """Return the rows as they stand in a results file."""
    return {"command": "python -m benchmarks.network", "rows": [row.as_json() for row in found]}


@click.command()
def main() -> None:
    """Print the figures of the 32-layer model, and write them."""
    found = [*measure(SHAPE), *over_a_link(SAMPLED, LATENCY, RATE)]
    FILE.write_text(json.dumps(document(found), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    show(found, Console())
    sys.exit(not all(row.met for row in found))


if __name__ == "__main__":
    main()
