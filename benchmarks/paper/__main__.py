"""Run experiments: `python -m benchmarks.paper tab:survival --scale lite`; without an item it lists them."""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import torch

from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import SCALES, Bench, ClaimError, Experiment, Results
from benchmarks.paper.items import found
from benchmarks.paper.parts.cache import Cache
from hf_lineage import LineageError

RESULTS = ROOT / "benchmarks" / "results"
INTERRUPTED = 130


@click.command()
@click.argument("items", nargs=-1, metavar="ITEM...")
@click.option("--list", "every", flag_value="list", help="List the items and run none, as without any item.")
@click.option("--all", "every", flag_value="all", help="Run every item: ten minutes and more at the scale lite.")
@click.option("--scale", type=click.Choice(SCALES), default="lite", show_default=True)
@click.option(
    "--scratch", type=click.Path(path_type=Path, file_okay=False), show_default=True,
    default=Path(tempfile.gettempdir()) / "hf-lineage-paper", help="What was trained and scored before is found here.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Where results are written.")
@click.option(
    "--write", is_flag=True, help="Write over the committed results; otherwise they go to the scratch folder."
)
def main(items: Sequence[str], every: str | None, scale: str, scratch: Path, output: Path | None, write: bool) -> None:
    """Reproduce ITEMS of the paper, named by their labels.

    With --write results go to benchmarks/results. A run that is stopped goes on where it was.
    """
    torch.set_num_threads(1)  # torch's sums come out the same however many cores there are
    experiments = found()
    if every == "list" or not (items or every):
        return click.echo(listing(experiments))
    if write and (output or scale == "smoke"):
        raise click.UsageError("--write is for benchmarks/results: leave out --output, and --scale smoke")
    unknown = sorted(set(items) - set(experiments))
    if unknown:
        raise click.UsageError(f"no item {unknown[0]}; there are {', '.join(sorted(experiments))}")
    folder = output or (RESULTS if write else scratch / "results" / ("smoke" if scale == "smoke" else ""))
    bench = Bench(scale, Cache(scratch, tell), folder / "figures")
    chosen, failed = list(experiments if every else items), False
    try:
        for number, item in enumerate(chosen, start=1):
            click.echo(f"{item}, {number} of {len(chosen)}", err=True)
            failed |= not reproduced(item, experiments[item], bench, folder)
    except KeyboardInterrupt:
        click.echo("benchmarks: interrupted; the same command goes on from here", err=True)
        sys.exit(INTERRUPTED)
    click.echo(f"The results are in {folder}", err=True)
    sys.exit(failed)


def listing(experiments: Mapping[str, Sequence[Experiment]]) -> str:
    """Return the labels of all items with what is measured for each, a line each."""
    return "\n".join(f"{item:26}{'; '.join(one.title for one in some)}" for item, some in sorted(experiments.items()))


def tell(what: str, seconds: float) -> None:
    """Say what was made or scored, so that a run of many minutes is not silent; what took no time is not told."""
    if seconds >= 1:
        click.echo(f"  {what}: {seconds:.0f} seconds", err=True)


def reproduced(item: str, experiments: Sequence[Experiment], bench: Bench, folder: Path) -> bool:
    """Write and print the results of an item, and return whether its claims hold.

    Where it cannot be measured nothing is written.
    """
    start = time.monotonic()
    try:
        measured = [list(experiment.rows(bench)) for experiment in experiments]
    except (LineageError, ClaimError) as error:
        click.echo(f"benchmarks: {item}: {error}", err=True)
        return False
    command = f"python -m benchmarks.paper {item} --scale {bench.scale}"
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
