"""`ours:merges`, which is not in the paper: the shares of parents beside the recipes by which mergekit merged them.

Parents are the fine-tunes of `examples/hub`. Every merge also declares two descendants of the same base that are not in
it; one of them learned from the same text as a parent.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.merging import (
    BASE,
    CONFIGURATIONS,
    FALSE,
    declaring,
    merged,
    true_parents,
)
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.results import Row
from hf_lineage import Options, check

PATHS = ("mlp", "value_output")
RANDOM = frozenset({"dare", "dare_linear"})
"""The merges that draw what they drop."""
SMOKE = ("linear", "ties")
"""The merges at the smallest size."""
EXACT = ("linear", "three", "slerp", "gradient", "through")
"""The merges of which a recipe says the shares."""
NEAR = 0.05
"""How far these may be from the recipe."""
TITLES = {
    "linear": "linear",
    "three": "linear, the third continued for long",
    "slerp": "SLERP, the second continued for long",
    "gradient": "SLERP, t varies along the layers",
    "task": "task arithmetic",
    "ties": "TIES, density 0.5",
    "dare": "DARE-TIES, density 0.4",
    "dare_linear": "DARE, density 0.3",
    "through": "pass-through, 4 layers of each",
}
COLUMNS = ("Merge", "Weights by the recipe", "Shares along mlp", "along value_output", "False parents detected")


def rows(bench: Bench) -> Sequence[Row]:
    """Return for each merge, path and parent the share, and how many parents were detected."""
    measured: list[Row] = []
    seeds = bench.sized(1, 10, 10)
    for name in bench.sized(SMOKE, tuple(CONFIGURATIONS), tuple(CONFIGURATIONS)):
        for seed in range(seeds if name in RANDOM else 1):
            with tempfile.TemporaryDirectory() as folder:
                measured += _rows(name, seed, Path(folder) / "merge")
    return measured


def _rows(name: str, seed: int, folder: Path) -> list[Row]:
    """What is measured of one merge."""
    merged(name, folder, seed)
    base = (BASE,) if "base_model" in CONFIGURATIONS[name] and name not in EXACT else ()
    declaring(folder, [*base, *true_parents(name), *FALSE])
    report = check(str(folder), options=Options(local_hub=HUB, paths=PATHS, seed=0))
    shutil.rmtree(folder)
    with_version = f"mergekit {importlib.metadata.version('mergekit')}"
    result = []
    for path in PATHS:
        detected = 0
        for row in report.rows:
            parent = row.parent
            if parent is None or path not in parent.shares:
                raise AssertionError(f"{name}: {row.claim.base}: {parent and parent.reason}")
            share = parent.shares[path]
            declared = parent.declared.get(path)
            note = f"{share.low:.3f} to {share.high:.3f}, recipe {declared}, {with_version}"
            result.append(Row(f"{name}, seed {seed}: {path}: {row.claim.base}", None, share.value, note))
            false = row.claim.base in FALSE
            detected += false and share.detected
            if not false and not parent.is_base:
                words = "detected" if share.detected else "not detected"
                result.append(Row(f"{name}, seed {seed}: {path}: {row.claim.base}: verdict", None, words))
        result.append(Row(f"{name}, seed {seed}: {path}: false parents detected", None, detected))
    return result


def summary(rows: Mapping[str, Row]) -> Sequence[Sequence[str]]:
    """Return a line for each merge, in the columns of the table."""
    lines = []
    for name in CONFIGURATIONS:
        ends = [f"{path}: false parents detected" for path in PATHS]
        seeds = [seed for seed in range(100) if f"{name}, seed {seed}: {ends[0]}" in rows]
        parents = true_parents(name)
        shares = [" / ".join(_share(rows, name, seeds, path, parent) for parent in parents) for path in PATHS]
        recipe = " / ".join(f"{_declared(rows[f'{name}, seed 0: mlp: {parent}']):g}" for parent in parents)
        false = sum(int(rows[f"{name}, seed {seed}: {end}"].number) for seed in seeds for end in ends)
        lines.append((TITLES[name], recipe, *shares, f"{false} of {len(FALSE) * len(ends) * len(seeds)}"))
    return lines


def _share(rows: Mapping[str, Row], name: str, seeds: Sequence[int], path: str, parent: str) -> str:
    """The share of one parent, of several draws the least and the largest."""
    values = [rows[f"{name}, seed {seed}: {path}: {parent}"].number for seed in seeds]
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _declared(row: Row) -> float:
    """The weight of a parent by the recipe, out of the note of its share."""
    return float(row.note.partition("recipe ")[2].partition(",")[0])


def holds(rows: Mapping[str, Row]) -> None:
    """Shares are those of the recipe where it says them; every true parent is detected, and no other one."""
    for name, row in rows.items():
        if name.endswith("false parents detected"):
            claim(row.number == 0, f"{name}: {row.ours}")
        elif name.endswith(": verdict"):
            claim(row.ours == "detected", f"{name}: {row.ours}")
        elif name.startswith(EXACT) and not name.endswith(FALSE):
            declared = _declared(row)
            claim(abs(row.number - declared) <= NEAR, f"{name}: {row.number:.3f}, not {declared:g}")


EXPERIMENTS = (Experiment("ours:merges", "shares of the parents of merges by mergekit", rows, holds),)
