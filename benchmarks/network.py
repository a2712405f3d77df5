"""Network: what `check` moves of a model that is on the Hub, against the small Hub of the tests.

`python -m benchmarks.network` prints it as a table and writes it to `results/network.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from safetensors.torch import load_file, save_file

from benchmarks.isolated import ROOT
from benchmarks.results import Row, Target, show
from benchmarks.shapes import SHAPES, Model, Shape
from benchmarks.writing import INDEX, write_model
from hf_lineage.checkpoint.local import header
from hf_lineage.checkpoint.ranges import HEAD
from tests.hub import Hub, serving
from tests.hub.client import remote

FILE = Path(__file__).with_name("results") / "network.json"
SHAPE = SHAPES["7B"].shrunk(16)
"""All 32 layers, and the shares of embedding, head, attention and MLP that the 7B has."""
SHARDS = 3
BASE, SUSPECT = "acme/base", "fern/child"


def measure(shape: Shape) -> list[Row]:
    """Return what a whole check of a child against its base moves of both."""
    with tempfile.TemporaryDirectory() as scratch, serving() as hub:
        place = Path(scratch)
        base, child = Model("base", shape), Model("base", shape, child=True)
        for name, model in ((BASE, base), (SUSPECT, child)):
            hub.publish(name, written(model, place / model.folder))
        verdict = checked(hub, place / "home")
        return [row for name in (SUSPECT, BASE) for row in rows(hub, name, shape, verdict)]


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


def checked(hub: Hub, home: Path) -> str:
    """Check the child in a process of its own with an empty cache, and return the verdict."""
    command = [sys.executable, "-m", "hf_lineage.cli", "check", SUSPECT, "--base", BASE, "--paths", "mlp"]
    done = subprocess.run(
        [*command, "--format", "json"], cwd=ROOT, env=remote(hub, home), capture_output=True, text=True, check=True
    )
    (claim,) = json.loads(done.stdout)["claims"]
    return str(claim["verdict"])


def rows(hub: Hub, name: str, shape: Shape, verdict: str) -> list[Row]:
    """Return what was moved of one model: the share of its bytes, the requests, and what came twice."""
    moved = hub.moved(name) + sum(size for path, size in hub.sent.items() if path.startswith(f"hub/{name}/"))
    ranges = [part for part in hub.parts if part.file.startswith(f"{name}/")]
    asked = [request for request in hub.requests if name in request]
    what = "suspect" if name == SUSPECT else "base"
    note = f"{moved} of {shape.bytes} bytes, {shape.layers} layers of width {shape.width}, all read: {verdict}"
    return [
        Row(f"{what}: bytes moved", Target(high=0.5), moved / shape.bytes, "of its own", note),
        Row(
            f"{what}: requests",
            Target(),
            len(asked) + len(ranges),
            "requests",
            f"{len(asked)} to the Hub, {len(ranges)} ranges, at most {hub.most_at_once} at once",
        ),
        Row(f"{what}: parts that came twice", Target(high=0), len(hub.twice()), "ranges", "of all models"),
        Row(
            f"{what}: embedding and head",
            Target(high=HEAD),
            outside(hub, name),
            "bytes",
            "what follows the header in the first bytes that are read of a file, none besides",
        ),
    ]


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


def main() -> None:
    """Print the figures of the 32-layer model, and write them."""
    found = measure(SHAPE)
    FILE.write_text(json.dumps(document(found), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    show(found, Console())
    sys.exit(not all(row.met for row in found))


if __name__ == "__main__":
    main()
