"""The commands about many models: index, identify and tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from hf_lineage.cli import options as common
from hf_lineage.errors import NothingToCompare, printable

if TYPE_CHECKING:
    from hf_lineage.hub.repo import RepoRef
    from hf_lineage.index.build import Outcome
    from hf_lineage.index.identify import Identification
    from hf_lineage.index.store import Catalogue
    from hf_lineage.signature.values import Signature
    from hf_lineage.source.options import Options


CODES = "2 usage or input error, 130 interrupted."
A_MODEL = "org/name, org/name@revision, a folder as ./name, or a signature file."
ADDING = common.with_examples(
    f"A model is {A_MODEL} A model whose commit is in the index is not read again, so a stopped run continues where it "
    f"stopped. Exit codes: 0 all are in the index, {CODES}",
    "hf-lineage index add org/model other/model",
    "hf-lineage index add --author org --index ./index",
)
SHOWING = common.with_examples(
    f"Exit codes: 0 the index was read, {CODES}", "hf-lineage index list", "hf-lineage index list --format json"
)
REMOVING = common.with_examples(
    "MODEL is a name that `index list` shows; org/name removes every commit, org/name@commit one. Exit codes: 0 all "
    f"were removed, {CODES}",
    "hf-lineage index remove org/model ./folder",
    "hf-lineage index remove org/model@0123abc --index ./index",
)
FOLDER = click.option(
    "--index",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=common.refuse_link,
    metavar="DIR",
    help="The folder of the index; by default HF_LINEAGE_INDEX, or lineage/index in HF_HOME.",
)
INDEX = click.option(
    "--index",
    metavar="INDEX",
    help="The folder of the index, or org/name of one on the Hub; by default HF_LINEAGE_INDEX, or lineage/index in "
    "HF_HOME.",
)
FORM = common.format_option("text", "json")
AUTHORS = click.option(
    "--author", "authors", multiple=True, metavar="ORG", help="Add all models of this account; repeatable."
)


@click.group(
    epilog=common.with_examples(
        f"Exit codes: 0 done, {CODES}", "hf-lineage index add org/model", "hf-lineage index list"
    )
)
def index() -> None:
    """Keep an index of known models, in which `identify` finds relatives."""


@index.command(epilog=ADDING)
@click.argument("models", nargs=-1, type=common.MODEL, metavar="MODEL...")
@common.with_options(AUTHORS, FOLDER, *common.settings(*common.OF_SIGNATURES, paths=common.FIRST))
def add(models: tuple[str, ...], authors: tuple[str, ...], folder: Path | None, **values: Any) -> int:
    """Put models into the index, each when it has been read."""
    from hf_lineage.index import build, store

    if not models and not authors:
        raise click.UsageError("name a MODEL, or an account with --author")
    options, catalogue = common.make_options(**values), store.Catalogue(folder or store.default_folder())
    everything = build.every(models, authors)
    results = build.build(everything, catalogue, options)
    counted = _print_outcomes(results, everything, "Adding", "already in the index")
    return common.ERROR if counted["failed"] else 0


def _print_outcomes(results: Iterator[Outcome], models: Sequence[str], doing: str, known: str = "") -> Counter[str]:
    """Print what became of each model, `known` of one that was there, and return how many were of each kind."""
    counted: Counter[str] = Counter()
    for _ in progress(doing, models):
        added = next(results)
        kind = "failed" if added.problem else "added" if added.records else "known"
        counted[kind] += 1
        if added.problem:
            click.echo(printable(added.problem), err=True)
        elif kind == "added" or known:
            click.echo(f"{printable(added.model, 200)}: {known if kind == 'known' else kind}")
    list(results)  # joins what was written, after the last model
    return counted


@index.command(epilog=REMOVING)
@click.argument("models", nargs=-1, type=common.MODEL, required=True, metavar="MODEL...")
@common.with_options(FOLDER)
def remove(models: tuple[str, ...], folder: Path | None) -> int:
    """Take models out of the index, all of them or none."""
    from hf_lineage.index import build, store

    build.remove(models, store.Catalogue(folder or store.default_folder()))
    for model in models:
        click.echo(f"{printable(model, 200)}: removed")
    return 0


@index.command("list", epilog=SHOWING)
@common.with_options(INDEX, FORM, common.OUTPUT)
def list_(index: str | None, form: str, output: Path | None) -> int:
    """List the models of the index."""
    from hf_lineage.cli.identified import LISTS
    from hf_lineage.index.store import open_catalogue

    common.write(LISTS[form](sorted(set(open_catalogue(index).entries()))), output)
    return 0


@common.command(
    f"MODEL is {A_MODEL} Exit codes: 0 a relative was found, 3 none was, {CODES}",
    "hf-lineage identify org/model",
    "hf-lineage identify ./folder --index ./index --top 10",
)
@click.argument("model", type=common.MODEL)
@common.count_option("--top", "The number of models to test.", 5, most=10)
@common.with_options(INDEX, *common.settings(*common.OF_SIGNATURES, "alpha", paths=common.FIRST), FORM, common.OUTPUT)
def identify(model: str, top: int, index: str | None, form: str, output: Path | None, **values: Any) -> int:
    """Find the models of the index from which MODEL comes, or that come from it."""
    from hf_lineage.cli import identified
    from hf_lineage.hub.repo import RepoRef
    from hf_lineage.index.identify import identify_adapters
    from hf_lineage.index.store import open_catalogue
    from hf_lineage.report.command import against
    from hf_lineage.source.contents import find_adapters
    from hf_lineage.source.locate import locate_model

    options = common.make_options(**values)
    source, catalogue = locate_model(model, options), open_catalogue(index)
    adapters = find_adapters(source) if isinstance(source, RepoRef) else None
    if isinstance(source, RepoRef) and adapters:
        bases = identify_adapters(source, adapters, catalogue, options, top)
        related = any(one.verdict.is_related for base in bases for one in base.tested)
        text = identified.BASES_FORMATS[form](bases, partial(against, source, options))
    else:
        results = _identify_model(source, catalogue, options, top)
        related, text = any(result.related for result in results), identified.FORMATS[form](results)
    common.write(text, output, coloured=form == "text")
    common.remark(catalogue.notes)
    return 0 if related else common.UNDECIDED


def _identify_model(
    source: RepoRef | Signature, catalogue: Catalogue, options: Options, top: int
) -> list[Identification]:
    from hf_lineage.evidence.criteria import Criteria
    from hf_lineage.hub.repo import RepoRef
    from hf_lineage.index import nearest
    from hf_lineage.index.identify import identify as identify_model
    from hf_lineage.source.config import parts_of_model
    from hf_lineage.source.contents import only
    from hf_lineage.source.model import open_model

    source = only(source)
    models = [open_model(source, options)]
    for part in parts_of_model(source) if isinstance(source, RepoRef) else ():
        try:
            models.append(open_model(part, options))
        except NothingToCompare as error:  # the model is identified all the same
            common.remark([str(error)])
    along = [(signature, path) for model in models for signature in (model.signature(),) for path in signature.paths]
    criteria = Criteria(alpha=options.alpha)
    results = [identify_model(signature, path, catalogue, criteria, top) for signature, path in along]
    return [nearest.weigh_relatives(results[0], models[0], options), *results[1:]]


def progress(doing: str, models: Sequence[str]) -> Iterable[str]:
    """Yield models, and show on a terminal how many are done."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from tqdm import tqdm

    return tqdm(models, desc=doing, unit="model", disable=are_progress_bars_disabled() or None, leave=False)


BUILDING = common.with_examples(
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
    common.count_option("--workers", "The number of models that are read at the same time.", 1, most=10_000),
    click.option(
        "--rate",
        type=click.FloatRange(min=1),
        metavar="N",
        help="The most requests to the Hub per minute, for all workers together; by default as many as the Hub allows.",
    ),
)


@index.command("build", epilog=BUILDING)
@common.with_options(*WORK, FOLDER, *common.settings(*common.OF_SIGNATURES, paths=common.FIRST))
def build_(models: TextIO, engine: str, workers: int, rate: float | None, folder: Path | None, **values: Any) -> int:
    """Put the models of a list into the index, many at a time."""
    from hf_lineage.index import build, store

    names = build.parse_list(models.read(build.LARGEST_LIST + 1))
    options, catalogue = common.make_options(**values), store.Catalogue(folder or store.default_folder())
    work = build.Work(workers, rate and rate / workers)
    results = build.build(names, catalogue, options, build.ENGINES[engine], work, compact=True)
    counted = _print_outcomes(results, names, "Building")
    click.echo(f"{counted['added']} added, {counted['known']} already there, {counted['failed']} could not be read")
    return common.ERROR if counted["failed"] else 0


@common.command(
    f"MODEL is {A_MODEL} Exit codes: 0 the tree was drawn, 2 usage or input error, or a model could not be read; the "
    "others are drawn, 130 interrupted.",
    "hf-lineage tree org/base org/model other/model",
    "hf-lineage tree --author org --format html -o tree.html",
)
@click.argument("models", nargs=-1, type=common.MODEL, metavar="MODEL...")
@common.with_options(
    AUTHORS,
    INDEX,
    *common.settings(*common.OF_SIGNATURES, paths=common.FIRST),
    common.format_option("text", "json", "dot", "mermaid", "svg", "html"),
    common.OUTPUT,
)
def tree(
    models: tuple[str, ...], authors: tuple[str, ...], index: str | None, form: str, output: Path | None, **values: Any
) -> int:
    """Draw the family tree of MODELs: which come from which, by exact tests and the differences of their weights."""
    from hf_lineage.cli import single
    from hf_lineage.index import build, store
    from hf_lineage.index.tree import grow

    options = common.make_options(**values)
    everything = build.every(models, authors)
    if not everything and index is None:
        raise click.UsageError("name a MODEL, an account with --author, or an index with --index")
    path = options.paths[0]
    members, problems = build.gather(everything, options, partial(progress, "Reading"))
    if index is not None:
        catalogue, known = store.open_catalogue(index), {member.name for member in members}
        members += [member for member in build.read_members(catalogue, path) if member.name not in known]
        common.remark(catalogue.notes)
    for problem in problems:
        click.echo(printable(problem), err=True)
    common.write(single.FORMATS[form](grow(members, path)), output)
    return common.ERROR if problems else 0
