"""The commands that bring an index to the Hub and from there: index push and index pull."""

from __future__ import annotations

from pathlib import Path

import click

from hf_lineage.cli.indexing import CODES, FOLDER, tell
from hf_lineage.cli.shared import ERROR, with_examples, with_options
from hf_lineage.errors import printable

PUSHING = with_examples(
    "REPO is org/name, a dataset repository, which is created if it does not exist. Its entries stay, also those "
    "that others push meanwhile; a stopped push continues where it stopped. Exit codes: 0 everything is there, "
    f"{CODES}",
    "hf-lineage index push org/index",
)
PULLING = with_examples(
    "REPO is org/name or org/name@revision, a dataset repository. Entries of the index here stay. Exit codes: 0 "
    "everything is here, 2 usage or input error, or a file could not be read; the rest is here, 130 interrupted.",
    "hf-lineage index pull org/index",
    "hf-lineage identify org/model --index org/index",
)


@click.command(epilog=PUSHING)
@click.argument("repo", metavar="REPO")
@click.option("--private", is_flag=True, help="If the repository does not exist yet, create it as private.")
@with_options(FOLDER)
def push(repo: str, private: bool, folder: Path | None) -> int:
    """Add the models of the index to a repository of data on the Hub, with a card."""
    from hf_lineage.index.publishing import publishing
    from hf_lineage.index.storage import Catalogue, default_folder

    catalogue = Catalogue(folder or default_folder())
    done = publishing.push(catalogue, repo, private)
    tell(catalogue.passed.notes)
    shown = printable(repo, 200)
    if done.left_out:
        click.echo(f"{done.left_out} entries of folders are left out: others can use models of the Hub only", err=True)
    click.echo(f"{shown}: {done.added} entries added, {done.of} in all")
    if done.address:
        click.echo(printable(done.address))
    return 0


@click.command(epilog=PULLING)
@click.argument("repo", metavar="REPO[@REVISION]")
@click.option(
    "--signatures",
    is_flag=True,
    help="Also fetch the signatures; by default each is fetched when a model is tested against it.",
)
@with_options(FOLDER)
def pull(repo: str, signatures: bool, folder: Path | None) -> int:
    """Put the models of an index on the Hub into the index here."""
    from hf_lineage.index.publishing import publishing
    from hf_lineage.index.storage import Catalogue, default_folder

    catalogue = Catalogue(folder or default_folder())
    done = publishing.pull(repo, catalogue, signatures)
    click.echo(f"{printable(repo, 200)} at {done.commit[:12]}: {done.added} entries added, {done.of} in it")
    tell((*done.unread, *catalogue.passed.notes))
    return ERROR if done.unread or catalogue.passed.signatures else 0
