"""Measure every target of speed and memory in one run: `python -m benchmarks.speed`."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from benchmarks import scratch
from benchmarks.cases import CASES, Bench
from benchmarks.commands import CommandError
from benchmarks.machine import machine
from benchmarks.results import WIDTH, Row, show
from benchmarks.shapes import FULL, QUICK, Plan

DEPTHS = (32, 24, 16, 8)  # how many layers the 7B may have, as far as the disk allows
INTERRUPTED = 130


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(CASES)), help="Measure these alone; repeatable.")
@click.option("--quick", is_flag=True, help="Small shapes, a minute: shows that everything runs, not how fast.")
@click.option("--rivals", is_flag=True, help="Install the rival tools, each into an environment of its own.")
@click.option(
    "--scratch", "root", type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    default=tempfile.gettempdir(), show_default=True, help="Where models are written, and rivals kept.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the results as JSON, too.")
def main(only: Sequence[str], quick: bool, rivals: bool, root: Path, output: Path | None) -> None:
    """Measure hf-lineage beside the limits of this machine and beside its rivals."""
    chosen = only or tuple(CASES)
    flags = [flag for flag, given in {"--quick": quick, "--rivals": rivals}.items() if given]
    rows: list[Row] = []
    try:
        plan = fitting(QUICK if quick else FULL, chosen, scratch.free(root))
        for case, found in measure(plan, chosen, root, rivals):
            rows += found
            if output is not None:
                output.write_text(document(case, found, output, flags), encoding="utf-8")
    except KeyboardInterrupt:
        click.echo("benchmarks: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except (scratch.DiskError, CommandError, OSError, subprocess.CalledProcessError) as error:
        click.echo(f"benchmarks: {error}", err=True)
        sys.exit(2)
    show(rows, Console(width=WIDTH))
    if quick:
        click.echo("\nThese are small shapes: no figure is one to hold against its target.")


def fitting(plan: Plan, chosen: Sequence[str], room: int) -> Plan:
    """Return the plan with as many layers of the 7B as so many bytes have room for.

    Raise DiskError if even the fewest do not fit.
    """
    for layers in DEPTHS:
        shorter = plan.shorter("7B", layers)
        needed = scratch.most_at_once([CASES[name].models(shorter) for name in chosen])
        if needed <= room:
            return shorter
    raise scratch.DiskError(
        f"{needed / 1e9:.1f} GB have to be written and there is room for {room / 1e9:.1f}; name a folder on another "
        "disk with --scratch, or fewer figures with --only"
    )


def measure(plan: Plan, chosen: Sequence[str], root: Path, rivals: bool) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each of the chosen cases; what they write is gone afterwards."""
    with scratch.scratch(root) as place:
        bench = Bench(plan, place, root / "hf-lineage-rivals" if rivals else None)
        for number, name in enumerate(chosen):
            click.echo(f"measuring {name}", err=True)
            place.write(CASES[name].models(plan))
            yield name, list(CASES[name].rows(bench))
            place.keep({model for later in chosen[number + 1 :] for model in CASES[later].models(plan)})


def document(case: str, rows: Sequence[Row], output: Path, flags: Sequence[str]) -> str:
    """Return the results as JSON: the rows of one case, and those that a file holds of others by the same command.

    What another machine has measured, or other flags, is not kept beside them.
    """
    run = {"machine": machine(), "command": " ".join(("python -m benchmarks.speed", *flags))}
    before = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    kept = before.get("rows", []) if run.items() <= before.items() else []
    measured = {name: [row for row in kept if row["case"] == name] for name in CASES}
    measured[case] = [{"case": case, **row.as_json()} for row in rows]
    run["rows"] = [row for name in CASES for row in measured[name]]
    return json.dumps(run, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
