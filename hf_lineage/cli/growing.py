"""The command that draws family trees: tree."""

from __future__ import annotations

from typing import Any

import click

from hf_lineage.cli.completing import MODEL
from hf_lineage.cli.indexing import AUTHORS, INDEX, progress, tell
from hf_lineage.cli.kinds import Result, format_option, remark, take
from hf_lineage.cli.shared import ERROR, OUTPUT, READING, SET, make_options, with_examples, with_options

FORMATS = ("text", "json", "dot", "mermaid", "svg", "html")
GROWING = with_examples(
    "MODEL is org/name, org/name@revision, a folder as ./name, or a signature file. Exit codes: 0 the tree was "
    "drawn, 2 usage or input error, or a model could not be read; the others are drawn, 130 interrupted.",
    "hf-lineage tree org/base org/model other/model",
    "hf-lineage tree --author org --format html -o tree.html",
)


@click.command(epilog=GROWING)
@click.argument("models", nargs=-1, type=MODEL, metavar="MODEL...")
@with_options(AUTHORS, INDEX, *READING, SET, format_option(*FORMATS), OUTPUT)
def tree(models: tuple[str, ...], authors: tuple[str, ...], index: str | None, **settings: Any) -> int:
    """Draw the family tree of MODELs: which come from which, by exact tests and the differences of their weights."""
    from hf_lineage.index.building import building
    from hf_lineage.index.building import model_list as gathering
    from hf_lineage.index.publishing import publishing
    from hf_lineage.index.tree import tree as growing
    from hf_lineage.report.tree import FORMATS as WRITERS

    result, options = take(Result, settings), make_options(**settings)
    everything = building.every(models, authors)
    if not everything and index is None:
        raise click.UsageError("name a MODEL, an account with --author, or an index with --index")
    gathered = gathering.gather(everything, options, progress("Reading"))
    if index is not None:
        catalogue = publishing.opened(index)
        gathered = gathering.together(gathered, gathering.indexed(catalogue, options.paths[0]))
        remark(catalogue.passed.notes)
    tell(gathered.problems)
    drawn = growing.grow(gathered.members, options.paths[0], growing.criteria(options.paths[0]), gathered.seen)
    result.write(WRITERS, drawn)
    return ERROR if gathered.problems else 0
