"""The commands about many models: index build from a list, and tree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import click

from hf_lineage.cli.indexing import AUTHORS, CODES, FOLDER, INDEX, progress, tell
from hf_lineage.cli.kinds import MODEL, Result, count_option, format_option, remark, take
from hf_lineage.cli.shared import (
    ERROR,
    FIRST,
    OF_SIGNATURES,
    OUTPUT,
    make_options,
    settings,
    with_examples,
    with_options,
)
from hf_lineage.errors import printable

BUILDING = with_examples(
    "LIST is a file of models, one a line, or - for standard input: org/name, org/name@commit or a folder. Each "
    "model is added as soon as it is read, and models in the index are not read again, so a stopped run continues "
    f"where it stopped, and tries again what could not be read. Exit codes: 0 all are in the index, {CODES}",
    "hf-lineage index build --from models.txt --workers 4",
    "hf-lineage index build --from models.txt --engine ray --workers 64 --rate 600",
)
WORK = (
    click.option(
        "--from",
        "models",
        type=click.File(encoding="utf-8", errors="replace"),
        required=True,
        metavar="LIST",
        help="The models to put into the index.",
    ),
    click.option(
        "--engine",
        type=click.Choice(("local", "ray")),
        default="local",
        show_default=True,
        help="Run the workers as processes of this machine, or with Ray, on the cluster of RAY_ADDRESS if that is set.",
    ),
    count_option("--workers", "The number of models that are read at the same time.", 1, most=10_000),
    click.option(
        "--rate",
        type=click.FloatRange(min=1),
        metavar="N",
        help="The most requests to the Hub per minute, for all workers together; by default as many as the Hub allows.",
    ),
)


@click.command(epilog=BUILDING)
@with_options(*WORK, FOLDER, *settings(*OF_SIGNATURES, paths=FIRST))
def build(models: TextIO, engine: str, workers: int, rate: float | None, folder: Path | None, **values: Any) -> int:
    """Put the models of a list into the index, many at a time."""
    from hf_lineage.index.building import ENGINES, Work, building
    from hf_lineage.index.storage import Catalogue, default_folder

    names = building.listed(models.read(building.LARGEST_LIST + 1))
    options, catalogue = make_options(**values), Catalogue(folder or default_folder())
    results = building.build(names, catalogue, options, ENGINES[engine], Work(workers, rate), compact=True)
    counted: Counter[str] = Counter()
    for _ in progress("Building")(names):
        added = next(results)
        counted["failed" if added.problem else "added" if added.records else "known"] += 1
        if added.problem:
            click.echo(printable(added.problem), err=True)
        elif added.records:
            click.echo(f"{printable(added.model, 200)}: added")
    for _ in results:  # joins what was written, after the last model
        pass
    click.echo(f"{counted['added']} added, {counted['known']} already there, {counted['failed']} could not be read")
    return ERROR if counted["failed"] else 0


FORMATS = ("text", "json", "dot", "mermaid", "svg", "html")
GROWING = with_examples(
    "MODEL is org/name, org/name@revision, a folder as ./name, or a signature file. Exit codes: 0 the tree was "
    "drawn, 2 usage or input error, or a model could not be read; the others are drawn, 130 interrupted.",
    "hf-lineage tree org/base org/model other/model",
    "hf-lineage tree --author org --format html -o tree.html",
)


@click.command(epilog=GROWING)
@click.argument("models", nargs=-1, type=MODEL, metavar="MODEL...")
@with_options(AUTHORS, INDEX, *settings(*OF_SIGNATURES, paths=FIRST), format_option(*FORMATS), OUTPUT)
def tree(models: tuple[str, ...], authors: tuple[str, ...], index: str | None, **values: Any) -> int:
    """Draw the family tree of MODELs: which come from which, by exact tests and the differences of their weights."""
    from hf_lineage.index.building import building
    from hf_lineage.index.building import model_list as gathering
    from hf_lineage.index.storage import opened
    from hf_lineage.index.tree import tree as growing
    from hf_lineage.report.tree import FORMATS as WRITERS

    result, options = take(Result, values), make_options(**values)
    everything = building.every(models, authors)
    if not everything and index is None:
        raise click.UsageError("name a MODEL, an account with --author, or an index with --index")
    gathered = gathering.gather(everything, options, progress("Reading"))
    if index is not None:
        catalogue = opened(index)
        gathered = gathering.together(gathered, gathering.indexed(catalogue, options.paths[0]))
        remark(catalogue.notes)
    tell(gathered.problems)
    path = options.paths[0]
    drawn = growing.grow(gathered.members, path, growing.criteria(path), gathered.seen, gathered.blend)
    result.write(WRITERS, drawn)
    return ERROR if gathered.problems else 0
