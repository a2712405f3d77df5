"""The commands about an index of known models: index and identify."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hf_lineage.cli.kinds import MODEL, Result, count_option, format_option, remark, take, unlinked
from hf_lineage.cli.shared import (
    ERROR,
    FIRST,
    OF_SIGNATURES,
    OUTPUT,
    UNDECIDED,
    make_options,
    settings,
    with_examples,
    with_options,
)
from hf_lineage.errors import NothingToCompare, printable

if TYPE_CHECKING:
    from hf_lineage.checking import Options
    from hf_lineage.checking.adapters import Adapters
    from hf_lineage.checking.source import OpenedModel
    from hf_lineage.hub import RepoRef
    from hf_lineage.index.storage import Catalogue
    from hf_lineage.signature import Signature

Item = TypeVar("Item")
CODES = "2 usage or input error, 130 interrupted."
ADDING = with_examples(
    "A model is org/name, org/name@revision, a folder as ./name, or a signature file. A model whose commit "
    "is in the index is not read again, so a stopped run continues where it stopped. Exit codes: 0 all are in "
    f"the index, {CODES}",
    "hf-lineage index add org/model other/model",
    "hf-lineage index add --author org --index ./index",
)
SHOWING = with_examples(
    f"Exit codes: 0 the index was read, {CODES}", "hf-lineage index list", "hf-lineage index list --format json"
)
REMOVING = with_examples(
    "MODEL is a name that `index list` shows; org/name removes every commit, org/name@commit one. Exit codes: 0 all "
    f"were removed, {CODES}",
    "hf-lineage index remove org/model ./folder",
    "hf-lineage index remove org/model@0123abc --index ./index",
)
IDENTIFYING = with_examples(
    "MODEL is org/name, org/name@revision, a folder as ./name, or a signature file. Exit codes: 0 a relative "
    f"was found, 3 none was, {CODES}",
    "hf-lineage identify org/model",
    "hf-lineage identify ./folder --index ./index --top 10",
)
FOLDER = click.option(
    "--index",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=unlinked,
    metavar="DIR",
    help="The folder of the index; by default HF_LINEAGE_INDEX, or lineage/index in HF_HOME.",
)
INDEX = click.option(
    "--index",
    "index",
    metavar="INDEX",
    help="The folder of the index, or org/name of one on the Hub; by default HF_LINEAGE_INDEX, or lineage/index in "
    "HF_HOME.",
)
FORM = format_option("text", "json")
AUTHORS = click.option(
    "--author", "authors", multiple=True, metavar="ORG", help="Add all models of this account; repeatable."
)
Identified = tuple[Mapping[str, Callable[..., str]], tuple[Any, ...], bool]
"""The formats that there are, what they take, and whether a relative was found."""


@click.group(
    epilog=with_examples(f"Exit codes: 0 done, {CODES}", "hf-lineage index add org/model", "hf-lineage index list")
)
def index() -> None:
    """Keep an index of known models, in which `identify` finds relatives."""


@index.command(epilog=ADDING)
@click.argument("models", nargs=-1, type=MODEL, metavar="MODEL...")
@with_options(AUTHORS, FOLDER, *settings(*OF_SIGNATURES, paths=FIRST))
def add(models: tuple[str, ...], authors: tuple[str, ...], folder: Path | None, **values: Any) -> int:
    """Put models into the index, each when it has been read."""
    from hf_lineage.index.building import building
    from hf_lineage.index.storage import Catalogue, default_folder

    if not models and not authors:
        raise click.UsageError("name a MODEL, or an account with --author")
    options, catalogue = make_options(**values), Catalogue(folder or default_folder())
    everything = building.every(models, authors)
    failed, results = False, building.build(everything, catalogue, options)
    for _ in progress("Adding")(everything):
        added = next(results)
        failed |= bool(added.problem)
        outcome = added.problem or ("added" if added.records else "already in the index")
        shown = printable(added.model, 200)
        click.echo(printable(outcome) if added.problem else f"{shown}: {outcome}", err=bool(added.problem))
    return ERROR if failed else 0


@index.command(epilog=REMOVING)
@click.argument("models", nargs=-1, type=MODEL, required=True, metavar="MODEL...")
@with_options(FOLDER)
def remove(models: tuple[str, ...], folder: Path | None) -> int:
    """Take models out of the index, all of them or none."""
    from hf_lineage.index.building import building
    from hf_lineage.index.storage import Catalogue, default_folder

    catalogue = Catalogue(folder or default_folder())
    building.remove(models, catalogue)
    for model in models:
        click.echo(f"{printable(model, 200)}: removed")
    return 0


@index.command("list", epilog=SHOWING)
@with_options(INDEX, FORM, OUTPUT)
def list_(index: str | None, **values: Any) -> int:
    """List the models of the index."""
    from hf_lineage.index.storage import opened
    from hf_lineage.report.single import identified as identification

    entries = sorted(set(opened(index).entries()))
    take(Result, values).write(identification.LISTS, entries)
    return 0


@click.command(epilog=IDENTIFYING)
@click.argument("model", type=MODEL)
@count_option("--top", "The number of models to test.", 5, most=10)
@with_options(INDEX, *settings(*OF_SIGNATURES, "alpha", paths=FIRST), FORM, OUTPUT)
def identify(model: str, top: int, index: str | None, **values: Any) -> int:
    """Find the models of the index from which MODEL comes, or that come from it."""
    from hf_lineage.checking.adapters import find_adapters
    from hf_lineage.checking.source import located
    from hf_lineage.hub import RepoRef
    from hf_lineage.index.storage import opened

    result = take(Result, values)
    options = make_options(**values)
    source, catalogue = located(model, options), opened(index)
    adapters = find_adapters(source)
    if isinstance(source, RepoRef) and adapters:
        formats, results, related = _of_adapter(source, adapters, catalogue, options, top)
    else:
        formats, results, related = _of_model(source, catalogue, options, top)
    result.write(formats, *results, coloured=True)
    remark(catalogue.notes)
    return 0 if related else UNDECIDED


def _of_model(source: RepoRef | Signature, catalogue: Catalogue, options: Options, top: int) -> Identified:
    """Return what is identified of a model."""
    from hf_lineage.checking.source import only, open_model, with_parts
    from hf_lineage.evidence import Criteria
    from hf_lineage.index.search import identify as searching
    from hf_lineage.index.search import parents
    from hf_lineage.report.single import identified as identification

    source = only(source)
    whole, *parts = with_parts(source)
    models = [open_model(whole, options), *_readable(parts, options)]
    criteria = Criteria(alpha=options.alpha)
    signatures = [model.signature() for model in models]
    along = [(signature, path) for signature in signatures for path in signature.paths]
    results = [searching.identify(signature, path, catalogue, criteria, top) for signature, path in along]
    results = [parents.weighed(results[0], models[0], options), *results[1:]]
    return identification.FORMATS, (results,), any(result.related for result in results)


def _readable(parts: Sequence[RepoRef | Signature], options: Options) -> Iterator[OpenedModel]:
    """Yield those parts of a model that can be read; of another one a remark says why, and the model is identified."""
    from hf_lineage.checking.source import open_model

    for part in parts:
        try:
            yield open_model(part, options)
        except NothingToCompare as error:
            remark([str(error)])


def _of_adapter(source: RepoRef, adapters: Adapters, catalogue: Catalogue, options: Options, top: int) -> Identified:
    """Return what is identified of a repository of adapters."""
    from hf_lineage.index.search import identify_adapters
    from hf_lineage.report.single import bases as adapter_bases
    from hf_lineage.report.words import commands as command

    results = identify_adapters(source, adapters, catalogue, options, top)
    against = partial(command.against, source, options)
    return adapter_bases.FORMATS, (results, against), any(one.related for result in results for one in result.tested)


def tell(notes: Iterable[str]) -> None:
    """Write notes to standard error, a line each."""
    for note in notes:
        click.echo(printable(note), err=True)


def progress(doing: str) -> Callable[[Sequence[Item]], Iterable[Item]]:
    """Return what shows, on a terminal, how many models are done."""

    def shown(models: Sequence[Item]) -> Iterable[Item]:
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled
        from tqdm import tqdm

        return tqdm(models, desc=doing, unit="model", disable=are_progress_bars_disabled() or None, leave=False)

    return shown
