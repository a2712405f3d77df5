"""Run experiments: `python -m benchmarks.paper tab:survival --scale lite`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import torch

from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import SCALES, Bench, ClaimError, Experiment, UnavailableError
from benchmarks.paper.items import found
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.results import Results
from hf_lineage import LineageError

RESULTS = ROOT / "benchmarks" / "results"
INTERRUPTED = 130


@click.command()
@click.argument("items", nargs=-1)
@click.option("--scale", type=click.Choice(SCALES), default="lite", show_default=True)
@click.option("--online", is_flag=True, help="Let experiments fetch public checkpoints.")
@click.option(
    "--scratch", type=click.Path(path_type=Path, file_okay=False), show_default=True,
    default=Path(tempfile.gettempdir()) / "hf-lineage-paper", help="What was trained and scored before is found here.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Where results are written.")
def main(items: Sequence[str], scale: str, online: bool, scratch: Path, output: Path | None) -> None:
    """Reproduce ITEMS of the paper, named by their labels, all of them if there are none named.

    Results go to benchmarks/results: of the scale lite into it, of paper and of public checkpoints into folders of
    their own; those of smoke go to the scratch folder. A run that is stopped goes on where it was.
    """
    torch.set_num_threads(1)  # sums come out the same however many cores there are
    experiments = found()
    unknown = sorted(set(items) - set(experiments))
    if unknown:
        raise click.UsageError(f"no item {unknown[0]}; there are {', '.join(sorted(experiments))}")
    lite = RESULTS / "online" if online else RESULTS
    folder = output or {"smoke": scratch / "smoke", "lite": lite, "paper": RESULTS / "paper"}[scale]
    bench = Bench(scale, Cache(scratch), folder / "figures", online)
    try:
        failed = [item for item in items or experiments if not reproduced(item, experiments[item], bench, folder)]
    except KeyboardInterrupt:
        click.echo("benchmarks: interrupted; the same command goes on from here", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(bool(failed))


def reproduced(item: str, experiments: Sequence[Experiment], bench: Bench, folder: Path) -> bool:
    """Write and print the results of an item, and return whether its claims hold.

    Where something that it needs is not to be had nothing is written.
    """
    start = time.monotonic()
    try:
        measured = [list(experiment.rows(bench)) for experiment in experiments]
    except (LineageError, UnavailableError, ClaimError) as error:
        click.echo(f"benchmarks: {item}: {error}", err=True)
        return False
    command = f"python -m benchmarks.paper {item} --scale {bench.scale}{' --online' if bench.online else ''}"
    results = Results(item, bench.scale, command, [row for rows in measured for row in rows])
    results.write(folder)
    click.echo(f"{results.markdown}\n{time.monotonic() - start:.0f} seconds", nl=True)
    for experiment, rows in zip(experiments, measured, strict=True):
        try:
            experiment.claim({row.name: row for row in rows})
        except ClaimError as error:
            click.echo(f"benchmarks: {item}: {experiment.title}: {error}", err=True)
            return False
    return True


if __name__ == "__main__":
    main()
