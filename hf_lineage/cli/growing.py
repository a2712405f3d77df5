"""The command that draws family trees: tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hf_lineage.cli.completing import MODEL
from hf_lineage.cli.indexing import INDEX, progress
from hf_lineage.cli.shared import (
    ALLOW_PICKLE,
    CLASSES,
    ERROR,
    OUTPUT,
    RECIPE,
    RECOMPUTE,
    SUBFOLDER,
    make_options,
    with_examples,
    with_options,
    write,
)
from hf_lineage.errors import printable

FORMATS = ("text", "json", "dot", "mermaid", "svg", "html")
GROWING = with_examples(
    "MODEL is org/name, org/name@revision, a folder, or a signature file. Exit codes: 0 the tree was drawn, 2 usage or "
    "input error, or a model could not be read and the others are drawn, 130 interrupted.",
    "hf-lineage tree org/base org/model other/model",
    "hf-lineage tree --author org --format html -o tree.html",
)
FORM = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="Format of the result."
)


@click.command(epilog=GROWING)
@click.argument("models", nargs=-1, type=MODEL, metavar="MODEL...")
@click.option("--author", "authors", multiple=True, metavar="ORG", help="Add all models of this account; repeatable.")
@with_options(INDEX, SUBFOLDER, ALLOW_PICKLE, *CLASSES, *RECIPE, RECOMPUTE, FORM, OUTPUT)
def tree(
    models: tuple[str, ...], authors: tuple[str, ...], folder: Path | None, form: str, output: Path | None,
    **settings: Any,
) -> int:  # fmt: skip
    """Draw the family tree of MODELs: which come from which, by exact tests and the differences of their weights."""
    from hf_lineage.index import building, gathering
    from hf_lineage.index import tree as growing
    from hf_lineage.index.catalogue import Catalogue
    from hf_lineage.report.tree import FORMATS as WRITERS

    options = make_options(**settings)
    everything = [*models, *(model for author in authors for model in building.published_by(author))]
    if not everything and folder is None:
        raise click.UsageError("name a MODEL, an account with --author, or an index with --index")
    gathered = gathering.gather(everything, options, progress("Reading"))
    if folder is not None:
        gathered = gathering.together(gathered, gathering.indexed(Catalogue(folder), options.paths[0]))
    for problem in gathered.problems:
        click.echo(printable(problem), err=True)
    drawn = growing.grow(gathered.members, options.paths[0], growing.criteria(options.paths[0]), gathered.seen)
    write(WRITERS[form](drawn), output)
    return ERROR if gathered.problems else 0
