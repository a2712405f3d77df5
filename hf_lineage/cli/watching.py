"""The command that checks the changes of whole accounts: watch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli import delivery
from hf_lineage.cli.indexing import progress
from hf_lineage.cli.kinds import Result, count_option, format_option, take, unlinked, writable
from hf_lineage.cli.shared import (
    ERROR,
    OUTPUT,
    TEST,
    make_options,
    with_examples,
    with_options,
)
from hf_lineage.errors import printable

if TYPE_CHECKING:
    from hf_lineage.watch import Scope

EPILOG = with_examples(
    "AUTHOR is an organisation or a user of the Hub, or a single model as org/model. A local hub is searched only "
    "for bases, because nothing in it has a date or a commit. The oldest change is checked first, and each model is "
    "recorded in the ledger before the next one is read, so the next run continues a stopped one. Exit codes: 0 "
    "every new claim RELATED, or no new claim; 1 one UNRELATED; 2 usage or input error, or a model could not be "
    "read; 3 undecided; 130 interrupted.",
    "hf-lineage watch org --dry-run",
    "hf-lineage watch org --tree org.html",
    "hf-lineage watch org other/model",
    "hf-lineage watch org --since 2026-01-31 --ledger org.jsonl --issues issues",
)


@dataclass(frozen=True)
class Files:
    """What a run keeps, and what it writes anew."""

    ledger: Path
    issues: Path | None
    tree: Path | None


@dataclass(frozen=True)
class Since:
    """How far back a run goes, and how far it gets."""

    since: datetime | None
    limit: int
    again: bool

    def bound(self, names: tuple[str, ...]) -> Scope:
        """Return what a run covers of these accounts and models."""
        from hf_lineage.watch import Scope

        return Scope(names, self.since and self.since.replace(tzinfo=UTC), self.limit, self.again)


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="AUTHOR...")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    default="lineage-ledger.jsonl",
    show_default=True,
    metavar="FILE",
    help="The record of what was checked: a line of JSON for each model and commit; new lines are appended.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Go back at least to this day (UTC); by default to the last entry of each AUTHOR, or to the beginning.",
)
@count_option("--limit", "The most models to check in this run.", 100)
@click.option("--again", is_flag=True, help="Check again the models that the ledger records as an error.")
@click.option("--dry-run", is_flag=True, help="List what would be checked, and change nothing.")
@click.option(
    "--issues",
    type=click.Path(path_type=Path, file_okay=False),
    callback=unlinked,
    metavar="DIR",
    help="Write a Markdown file for each model whose last check contradicted its claim; the first line is the title.",
)
@click.option(
    "--tree",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    metavar="FILE.html",
    help="Write a page with the family tree of all models in the ledger and of their bases; each is read completely.",
)
@with_options(*TEST, format_option("text", "json", "markdown", "slack", "discord"), OUTPUT)
@with_options(delivery.POLICY, delivery.FAILS)
def watch(names: tuple[str, ...], dry_run: bool, **settings: Any) -> int:
    """Check what AUTHORs changed on the Hub since the last run, and record it in a ledger."""
    from hf_lineage.watch import family, messages, read, rendering
    from hf_lineage.watch import run as watching

    result, files, scope = take(Result, settings), take(Files, settings), take(Since, settings).bound(names)
    governed = delivery.policy_in(settings.pop("policy"), settings.pop("fail_on"))
    options = make_options(**settings)
    _tell_of_local(names, options.local_hub)
    if dry_run:
        plan = watching.plan(scope, read(files.ledger))
        result.write(rendering.FORMATS, rendering.planned(plan))
        return ERROR if plan.problems else 0
    run = watching.watch(scope, files.ledger, options, progress("Checking"), governed)
    if files.issues is not None:
        _write_issues(messages.issues(run.open_entries()), files.issues)
    for problem in family.keep(run, names, files.tree, options, progress("Reading")) if files.tree else ():
        click.echo(f"hf-lineage: the tree leaves out {printable(problem)}", err=True)
    result.write(rendering.FORMATS, rendering.results(run), coloured=True)
    return int(run.exit_code)


def _tell_of_local(names: tuple[str, ...], local_hub: Path | None) -> None:
    from hf_lineage.hub import spelled

    for name in names:
        if local_hub and spelled(local_hub, name):
            click.echo(f"hf-lineage: {name} is watched on the Hub; {local_hub} is searched only for bases", err=True)


def _write_issues(texts: dict[str, str], folder: Path) -> None:
    from hf_lineage.files import make_folder, write_output

    make_folder(folder)
    for name, text in texts.items():
        write_output(folder / name, text.encode())
