"""The command that looks again and again: watch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.shared import ERROR, FORMAT, OUTPUT, RECIPE, TEST, make_options, with_options, writable, write

if TYPE_CHECKING:
    from hf_lineage.releases import Release

EPILOG = (
    "AUTHOR is an organisation or a user of the Hub, or a single model as org/model. The oldest change is checked "
    "first, and each model is in the ledger before the next one is looked at: a run may be stopped at any time, and "
    "the next one goes on. Exit codes: 0 every new claim RELATED, or none made; 1 one UNRELATED; 2 usage or input "
    "error, or a model that could not be read; 3 undecided; 130 interrupted."
)


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="AUTHOR...")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    default="lineage-ledger.jsonl",
    show_default=True,
    metavar="FILE",
    help="What was checked, a line of JSON for each model and commit; new lines are appended.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Look back to this day (UTC) at least; otherwise to the last entry of each AUTHOR, or to the beginning.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="Models to check in this run."
)
@click.option("--again", is_flag=True, help="Check those once more that the ledger has as an error.")
@click.option("--dry-run", is_flag=True, help="List what would be checked, and change nothing.")
@click.option(
    "--issues",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a Markdown file for each model that the ledger last saw refuted, its first line the title.",
)
@with_options(*RECIPE, *TEST, FORMAT, OUTPUT)
def watch(
    names: tuple[str, ...],
    ledger: Path,
    since: datetime | None,
    limit: int,
    again: bool,
    dry_run: bool,
    issues: Path | None,
    form: str,
    output: Path | None,
    **settings: Any,
) -> int:
    """Check what AUTHORs changed on the Hub since the last run, and keep a ledger of it."""
    from hf_lineage import watch as watching
    from hf_lineage.ledger import read
    from hf_lineage.report import refuted, watched

    options = make_options(**settings)
    scope = watching.Scope(names, since and since.replace(tzinfo=UTC), limit, again)
    if dry_run:
        plan = watching.plan(scope, read(ledger))
        write(watched.FORMATS[form](watched.planned(plan)), output)
        return ERROR if plan.problems else 0
    run = watching.watch(scope, ledger, options, _progress)
    if issues is not None:
        _write_issues(refuted.issues(run.latest), issues)
    write(watched.FORMATS[form](watched.found(run)), output, coloured=form == "text")
    return int(run.exit_code)


def _progress(releases: Sequence[Release]) -> Iterable[Release]:
    from tqdm import tqdm

    return tqdm(releases, desc="Checking", unit="model", disable=None, leave=False)


def _write_issues(texts: dict[str, str], folder: Path) -> None:
    from hf_lineage.atomic import write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
