"""Search: how long an index of up to a million models is searched, and whether relatives are among the first ten.

`python -m benchmarks.search` prints it as a table and writes it to `results/search.json`. The keys of unrelated models
are random bits, as those of independent models are. Among them stand families of ten, made as models are: residuals
of every member that have a given cosine with those of the first, and the keys of all of them. `identify` is run as a
command, on the stored signature of a model of the size of a Llama of 7 billion weights, with five relatives.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import psutil
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.machine import machine
from benchmarks.results import Row, Target, show
from hf_lineage.index.identify import CHANCE
from hf_lineage.index.shard import BITS, Entry, halves, key_of, similarities, write
from hf_lineage.index.store import KEYS, Catalogue
from hf_lineage.signature.recipe import RECIPES, UNIT_SIGNS
from hf_lineage.signature.store import encode, save_signature
from hf_lineage.signature.values import PathSignature, Signature, UnitCodes

FILE = Path(__file__).with_name("results") / "search.json"
SIZES = (10_000, 100_000, 1_000_000)
FAMILIES, MEMBERS = 200, 9
COSINES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Of the members of a family with the first one, layer by layer."""
COORDINATES, LAYERS = 128, 32
WIDTH, UNITS, RECIPE = 4096, 11008, RECIPES["robust"]
ENTRY = Entry("org/model", "", "mlp", WIDTH, LAYERS, RECIPE.label("mlp"))
PART = 100_000  # models of one file of keys
RELATIVES = 5  # of the model that is identified, each at a cosine of .9: as many as are tested
NEAREST = 10
RUNS = 3


def families(count: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Yield the key of the first of each family, (BITS / 8,), and those of its members, (MEMBERS, BITS / 8)."""
    rng, (chosen, _) = np.random.default_rng(0), halves(COORDINATES)

    def key(blocks: NDArray[np.float32]) -> NDArray[np.uint8]:
        corner = np.zeros((LAYERS, COORDINATES, COORDINATES), np.float32)
        corner[:, chosen[:, None], chosen] = blocks
        rows = np.ones(LAYERS)
        return key_of(PathSignature(corner, corner, rows, rows))

    for _ in range(count):
        first, *others = rng.normal(size=(1 + MEMBERS, LAYERS, len(chosen), len(chosen))).astype(np.float32)
        members = [cosine * first + np.sqrt(1 - cosine**2) * own for cosine, own in zip(COSINES, others, strict=True)]
        yield key(first), np.stack([key(np.asarray(member, np.float32)) for member in members])


def build(folder: Path, members: NDArray[np.uint8], size: int) -> None:
    """Write an index of random keys, and at its end those of the families."""
    rng = np.random.default_rng(1)
    for start in range(0, size, PART):
        keys = rng.integers(0, 256, (min(PART, size - start), BITS // 8), dtype=np.uint8)
        last = max(0, start + len(keys) - (size - len(members)))
        keys[len(keys) - last :] = members[len(members) - last :] if last else keys[:0]
        entries = [
            replace(ENTRY, model=f"org/model-{number}", commit=f"{number:040x}")
            for number in range(start, start + len(keys))
        ]
        write(folder / KEYS, f"{start:032x}", entries, keys)


def identified(folder: Path, runs: int) -> tuple[float, float]:
    """Return the seconds that the command takes to identify a model of which relatives are in an index, and those that
    processors work on it; the least of several runs."""
    rng, index = np.random.default_rng(2), Catalogue(folder)
    first = _signature("org/asked", None, rng)
    save_signature(first, folder / "asked.lineage.safetensors")
    for number in range(RELATIVES):
        index.add(_signature(f"org/relative-{number}", first, rng))
    command = [sys.executable, "-m", "hf_lineage.cli", "identify", str(folder / "asked.lineage.safetensors")]
    took: list[tuple[float, float]] = []
    for _ in range(runs):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*command, "--index", str(folder), "--format", "json"], stdout=subprocess.PIPE, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took.append((time.perf_counter() - started, worked))
        verdicts = [one["verdict"] for one in json.loads(done.stdout)["paths"][0]["relatives"]]
        assert verdicts == ["RELATED"] * RELATIVES, verdicts
    return min(seconds for seconds, _ in took), min(worked for _, worked in took)


def _signature(name: str, first: Signature | None, rng: np.random.Generator) -> Signature:
    """A signature of random numbers, or of one that is related to another."""
    shapes = {"sketch": (LAYERS, WIDTH, RECIPE.columns(WIDTH)), "corner": (LAYERS, COORDINATES, COORDINATES)}
    arrays = {part: rng.standard_normal(shape, np.float32) for part, shape in shapes.items()}
    if first is not None:
        arrays = {part: 0.9 * getattr(first.paths["mlp"], part) + 0.19**0.5 * own for part, own in arrays.items()}
    arrays = {part: values.astype(np.float32) for part, values in arrays.items()}
    rows = np.ones(LAYERS)
    codes = rng.integers(0, 256, (UNITS, UNIT_SIGNS // 8), np.uint8)
    units = (UnitCodes(np.ones(UNITS, np.float32), codes, codes, codes),) * LAYERS
    path = PathSignature(arrays["sketch"], arrays["corner"], rows, rows, units)
    return Signature(name, "c" * 40, "LlamaForCausalLM", "llama", True, WIDTH, LAYERS, RECIPE, {"mlp": path})


def measure(sizes: Sequence[int], count: int, runs: int = RUNS) -> list[Row]:
    """Return time, memory, size on disk and recall for indexes of these sizes with so many families in each.

    The command `identify` is run so many times, and left out for none.
    """
    asked, members = zip(*families(count), strict=True)
    planted = np.concatenate(members)
    rows = [row for size in sizes for row in _measured(size, asked, planted, runs)]
    if not runs:
        return rows
    stored = len(encode(_signature("org/model", None, np.random.default_rng(0)))) / 1e6
    return [*rows, Row("signature of a 7B", Target(), stored, "MB", f"{LAYERS} layers of width {WIDTH}")]


def _measured(size: int, asked: Sequence[NDArray[np.uint8]], planted: NDArray[np.uint8], runs: int) -> Iterator[Row]:
    large = size == max(SIZES)
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        build(Path(scratch), planted, size)
        built = time.perf_counter() - started
        stored = sum(file.stat().st_size for file in (Path(scratch) / KEYS).iterdir()) / 1e6
        started, before = time.perf_counter(), time.process_time()
        shards = [shard for shard in Catalogue(Path(scratch)).shards() if shard.group == ENTRY.group]
        opened, decoded = time.perf_counter() - started, time.process_time() - before
        times, hits, false = [], 0, 0
        for family, key in enumerate(asked):
            started = time.perf_counter()
            cosines = np.concatenate([similarities(key, keys) for shard in shards for keys in shard.pieces()])
            nearest = np.argpartition(-cosines, NEAREST)[:NEAREST]
            times.append(time.perf_counter() - started)
            own = size - len(planted) + family * MEMBERS
            hits += int(((nearest >= own) & (nearest < own + MEMBERS)).sum())
            false += int((cosines > CHANCE).sum()) - int((cosines[own : own + MEMBERS] > CHANCE).sum())
        memory = psutil.Process().memory_info().rss / 1e9
        took = identified(Path(scratch), runs) if runs else None
    recall, what = hits / len(planted), f"{size:,} models"
    yield Row(
        f"{what}, one search", Target(high=0.5) if large else Target(), float(np.median(times)), "s", "all keys, read"
    )
    yield Row(f"{what}, recall at {NEAREST}", Target(low=0.99), recall, "", f"{len(asked)} families of {MEMBERS + 1}")
    yield Row(f"{what}, others above chance", Target(), false / len(asked), "", f"a search, cosine > {CHANCE:.2f}")
    yield Row(f"{what}, to open", Target(), opened, "s", "the headers")
    yield Row(f"{what}, to open, processors", Target(), decoded, "s", "of all cores together")
    if took is not None:
        note = f"whole command, a stored 7B signature, least of {runs}"
        yield Row(f"{what}, identify", Target(high=5) if large else Target(), took[0], "s", note)
        yield Row(f"{what}, identify, processors", Target(), took[1], "s", "of all cores together")
    yield Row(f"{what}, memory", Target(high=8), memory, "GB", "resident")
    yield Row(f"{what}, keys on disk", Target(), stored, "MB", f"written in {built:.1f} s")


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE, show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="Models of the indexes.")
@click.option("--families", "count", default=FAMILIES, show_default=True, help="Families of ten in each.")
def main(output: Path, sizes: str, count: int) -> None:
    """Search indexes of several sizes for planted families."""
    rows = measure([int(size) for size in sizes.split(",")], count)
    show(rows, Console())
    document = {"machine": machine(), "rows": [row.as_json() for row in rows]}
    output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
