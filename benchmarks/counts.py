"""Counts: what the same work takes on every machine, so that a test can tell when it takes more than it did.

`python -m benchmarks.counts` writes them to `results/counts.json`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import click

from benchmarks.isolated import ROOT
from benchmarks.results import significant
from benchmarks.shapes import Model, Shape
from benchmarks.tasks import PATHS, PROBES, recipe
from benchmarks.writing import write_model, write_signatures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.tally import Tally
    from hf_lineage.checkpoint.stored import StoredTensor
    from hf_lineage.signature.values import PathSignature

Extract = Callable[..., Mapping[str, "PathSignature"]]
"""`extract_paths`, or what does its work in another way."""
Counts = dict[str, float]

FILE = Path(__file__).with_name("results") / "counts.json"
WORSE = 1.5
"""How many times larger than before a count may not be."""
SHAPE = Shape(2, 1024, 3072, heads=8, groups=1, head_size=64, vocabulary=1024)
SIGNED = Shape(8, 2048, 5504, heads=16, groups=16, head_size=128)
"""Of the signatures: large enough for fixed pieces of memory not to count."""
SAMPLED = Shape(8, 256, 4096, heads=16, groups=16, head_size=16, vocabulary=1024)
"""Of two related models: just deep and wide enough to be compared by a sample."""
PERMUTATIONS = 99
START = """
import sys
before = len(sys.modules)
from hf_lineage.cli import main
main(sys.argv[1:])
print(len(sys.modules) - before, file=sys.stderr)
"""


def counts() -> Counts:
    """Return every count of the package as it is."""
    from hf_lineage.evidence.permutation import permutation_null
    from hf_lineage.signature.extract import extract_paths

    with tempfile.TemporaryDirectory() as folder:
        model, signatures = Path(folder, "model"), Path(folder, "signatures")
        write_model(Model("counted", SHAPE), model)
        write_signatures(signatures, SIGNED)
        related = {described.folder: described for described in Model("sampled", SAMPLED).pair}
        for name, described in related.items():
            write_model(described, Path(folder, name))
        base, child = (Path(folder, name) for name in related)
        return {
            **extraction_counts(extract_paths, model),
            **exact_counts(extract_paths, model),
            **comparison_counts(permutation_null, signatures),
            **sample_counts(base),
            **start_counts(signatures, (base, child)),
        }


def extraction_counts(extract: Extract, model: Path) -> Counts:
    """Return what extracting a sketch takes, in parts of what it cannot do without."""
    tally = _tallied(extract, model, PROBES)
    elements = SHAPE.mlp_elements * SHAPE.layers
    return {
        "extraction: multiplications, by 4dhkL": tally.flops / (2 * elements * PROBES),
        "extraction: bytes read, by bytes stored": tally.read / (2 * elements),
        "extraction: bytes taken and given, by bytes stored": tally.moved / (2 * elements),
        "extraction: operations a layer": tally.operations / SHAPE.layers,
        "extraction: most bytes at once, by bytes stored of a layer": tally.peak / (2 * SHAPE.mlp_elements),
    }


def exact_counts(extract: Extract, model: Path) -> Counts:
    """Return what extracting in exact mode takes, in parts of what it cannot do without."""
    tally = _tallied(extract, model, None)
    dense = 2 * SHAPE.width**2 * SHAPE.hidden * SHAPE.layers
    return {
        "exact: multiplications, by 2ddhL": tally.flops / dense,
        "exact: most bytes at once, by bytes of a product": tally.peak / (4 * SHAPE.width**2),
    }


def _tallied(extract: Extract, model: Path, probes: int | None) -> Tally:
    from benchmarks.tally import Stored, Tally, by_torch, one_thread
    from hf_lineage.hub.repo import resolve
    from hf_lineage.source.headers import headers

    opened = headers(resolve(str(model)))
    checkpoint, layout = opened.checkpoint, opened.layout
    tally = Tally(Stored(checkpoint))
    with one_thread(), by_torch(), tally:
        extract(tally.stored, layout, recipe(probes), PATHS)
    return tally


def comparison_counts(test: Callable[..., object], signatures: Path) -> Counts:
    """Return what comparing two stored signatures takes."""
    import scipy.optimize  # noqa: F401 - the first permutation that needs it would count its import

    from hf_lineage import load_signature
    from hf_lineage.evidence.comparison import compare_paths

    ours, theirs = (load_signature(signatures / f"{name}.sig").paths["mlp"] for name in "ab")
    compare_paths(ours, theirs)
    sketches, corners = 8 * math.prod(ours.sketch.shape), 8 * math.prod(ours.corner.shape)
    return {
        "comparison: most bytes at once, by bytes of both": _most(compare_paths, ours, theirs) / sketches,
        "permutation test: most bytes at once, by bytes of both": _most(test, ours, theirs, PERMUTATIONS, 0) / corners,
        "permutation test: calls for each permutation": _calls(test, ours, theirs, PERMUTATIONS, 0) / PERMUTATIONS,
    }


def _most(task: Callable[..., object], *arguments: object) -> int:
    """The most bytes that NumPy and Python hold at once beyond what they held before."""
    from benchmarks.tally import one_thread

    tracemalloc.start()
    try:
        with one_thread():
            task(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _calls(task: Callable[..., object], *arguments: object) -> int:
    """How many functions are called, written in Python or not."""
    from benchmarks.tally import one_thread

    called = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    with one_thread():
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            task(*arguments)
        finally:
            sys.setprofile(before)
    return called


def sample_counts(model: Path) -> Counts:
    """Return how much of the layers that it shows a sample reads."""
    from hf_lineage.hub.repo import resolve
    from hf_lineage.signature.sample import Sample, sampled
    from hf_lineage.source.headers import headers

    opened = headers(resolve(str(model)))
    checkpoint, layout = opened.checkpoint, opened.layout
    read, sizes = checkpoint.read_pieces, []

    def counted(name: str, pieces: Iterable[StoredTensor]) -> NDArray[Any]:
        rows = read(name, pieces)
        sizes.append(rows.nbytes)
        return rows

    with patch.object(checkpoint, "read_pieces", counted):
        sampled(checkpoint, layout, recipe(PROBES), "mlp", range(SAMPLED.layers), Sample(seed=0))
    stored = 3 * SAMPLED.mlp_elements * SAMPLED.layers
    return {"sample: bytes read, by bytes stored of the MLPs": sum(sizes) / stored}


def start_counts(signatures: Path, related: tuple[Path, Path]) -> Counts:
    """Return how many modules the command imports: to show its help, to compare two signatures, and two models."""
    pair = [str(signatures / f"{name}.sig") for name in "ab"]
    return {
        "start-up: modules for --help": modules(START, "--help"),
        "start-up: modules to compare stored signatures": modules(START, "compare", *pair),
        "start-up: modules to compare two models by a sample": modules(START, "compare", *map(str, related)),
    }


def modules(program: str, *arguments: str) -> int:
    """Return how many modules a program like START says that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stderr.split()[-1])


def worse(counted: Counts, before: Counts) -> dict[str, str]:
    """Return what is wrong with every count that is over half as large again as it was, or that one side lacks."""
    grown = {
        name: f"{counted[name]:.4g}, {counted[name] / old:.2f} times {old:.4g}"
        for name, old in before.items()
        if name in counted and counted[name] > WORSE * old
    }
    return grown | dict.fromkeys(sorted(counted.keys() ^ before.keys()), "not on both sides")


@click.command()
def main() -> None:
    """Write the counts of the package as it is, on the CPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    rounded = {name: significant(count) for name, count in counts().items()}
    FILE.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
