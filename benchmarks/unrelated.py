"""Unrelated: what a verdict costs that opens every frame, at the width of a 7B, beside one on an honest fine-tune.

`python -m benchmarks.unrelated` writes models of a few layers, measures, and writes `results/unrelated.json`. A folder
that is named with `--scratch` is kept for the next run; rows that are not measured again stay in the file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from benchmarks.isolated import isolated
from benchmarks.machine import machine
from benchmarks.results import significant
from benchmarks.shapes import SHAPES
from benchmarks.turning import BASE, FINE_TUNE, INDEPENDENT, NEWLY_EMBEDDED, ROTATED, write_variants
from benchmarks.watched import Cost, cost

FILE = Path(__file__).with_name("results") / "unrelated.json"
CASES = {variant.name: variant for variant in (FINE_TUNE, INDEPENDENT, ROTATED, NEWLY_EMBEDDED)}
ALL = 32
"""Layers of a 7B; a verdict UNRELATED needs 13 of them, `--budget full` all."""


def row(case: str, layers: int, found: Cost) -> dict[str, Any]:
    """Return one measurement as it stands in the results."""
    return {
        "case": case,
        "layers": layers,
        "verdict": found.verdict,
        "frame": found.frame,
        "seconds": significant(found.seconds),
        "processor seconds": significant(found.processor),
        "peak memory, GB": significant(found.memory / 1e9),
        "read, GB": significant(found.read / 1e9),
        "steps, seconds and processor seconds": {
            name: [significant(seconds), significant(processor)]
            for name, (seconds, processor) in found.steps.items()
            if seconds
        },
    }


def write(rows: Sequence[dict[str, Any]]) -> None:
    """Write some rows, and keep those of other cases that the file holds."""
    before = json.loads(FILE.read_text(encoding="utf-8"))["rows"] if FILE.exists() else []
    measured = {(one["case"], one["layers"]): one for one in (*before, *rows)}
    ordered = [measured[key] for key in sorted(measured, key=lambda key: (list(CASES).index(key[0]), key[1]))]
    document = {"machine": machine(), "command": "python -m benchmarks.unrelated", "rows": ordered}
    FILE.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@click.command()
@click.option("--layers", multiple=True, type=click.IntRange(1, ALL), default=(2,), show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(CASES)), help="Measure these alone; repeatable.")
@click.option("--scratch", "root", type=click.Path(path_type=Path, file_okay=False), help="Where models are kept.")
def main(layers: Sequence[int], only: Sequence[str], root: Path | None) -> None:
    """Measure every case, print it and write it."""
    with tempfile.TemporaryDirectory() as temporary:
        place = root or Path(temporary)
        for count in layers:
            models = place / f"L{count}"
            if not models.exists():
                write_variants(models, replace(SHAPES["7B"], layers=count))
            for case in only or CASES:
                found = row(case, count, isolated(cost, models / BASE.name, models / case))
                click.echo(json.dumps(found, indent=1, ensure_ascii=False))
                write([found])


if __name__ == "__main__":
    main()
