"""The command line: parse, call, render, exit code; nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hf_lineage import __version__
from hf_lineage.errors import LineageError, printable

if TYPE_CHECKING:
    from hf_lineage.options import Options
    from hf_lineage.pipeline import Report

ERROR, UNDECIDED, INTERRUPTED = 2, 3, 130

EPILOG = (
    "MODEL is org/name, org/name@revision, a folder, or a signature that `extract` wrote. "
    "Exit codes: 0 every claim RELATED, 1 a claim UNRELATED, 2 usage or input error, 3 undecided, 130 interrupted."
)
Command = TypeVar("Command", bound=Callable[..., Any])


def _writable(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse at once what would fail after an hour of extraction."""
    if file is not None and not file.exists() and not os.access(file.parent, os.W_OK):
        raise click.BadParameter(f"there is no folder {str(file.parent)!r} that can be written to; make it first")
    return file


_LOCAL_HUB = click.option(
    "--local-hub", type=click.Path(path_type=Path), metavar="DIR", help="Folder of org/name folders to look into first."
)
_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_writable,
    metavar="FILE",
    help="Write here instead.",
)
_RECIPE = (
    click.option(
        "--recipe",
        type=click.Choice(["robust", "paper"]),
        default="robust",
        show_default=True,
        help="How a branch is formed.",
    ),
    click.option(
        "--paths", default="mlp", show_default=True, metavar="LIST", help="Of mlp,mlp_gate,value_output,query_key."
    ),
    click.option("--probes", type=int, default=64, show_default=True, metavar="K", help="Columns of the sketch."),
    click.option("--exact", is_flag=True, help="No sketch: the whole product of every branch."),
    click.option("--max-memory", metavar="SIZE", help="Budget of each device, such as 8GiB."),
    _LOCAL_HUB,
)
_TEST = (
    click.option("--alpha", type=float, default=0.01, show_default=True, help="Significance level."),
    click.option("--permutations", type=int, default=999, show_default=True, metavar="N", help="Relabellings tried."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of the relabellings."),
    click.option(
        "--null", "nulls", multiple=True, metavar="MODEL", help="Independent model, or published null; repeatable."
    ),
)
_FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True
)
_REPORT = (_FORMAT, _OUTPUT, click.option("--explain", is_flag=True, help="Each layer, the null, and the limits."))


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """All options in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="hf-lineage")
def cli() -> None:
    """Tell from weights alone whether a model really comes from the base it declares."""


@cli.command(epilog=EPILOG)
@click.argument("model")
@click.option(
    "--base", "bases", multiple=True, metavar="BASE", help="Check this base instead of what is declared; repeatable."
)
@_with(*_RECIPE, *_TEST, *_REPORT)
def check(model: str, bases: tuple[str, ...], form: str, output: Path | None, explain: bool, **settings: Any) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage import pipeline

    return _deliver(pipeline.check(model, bases, _options(**settings)), form, output, explain)


@cli.command(epilog=EPILOG)
@click.argument("a")
@click.argument("b")
@_with(*_RECIPE, *_TEST, *_REPORT)
def compare(a: str, b: str, form: str, output: Path | None, explain: bool, **settings: Any) -> int:
    """Compare two models, whatever they declare."""
    from hf_lineage import pipeline

    return _deliver(pipeline.compare(a, b, _options(**settings)), form, output, explain)


@cli.command(epilog=EPILOG)
@click.argument("model")
@_with(*_RECIPE, _OUTPUT)
def extract(model: str, output: Path | None, **settings: Any) -> int:
    """Write the signature of MODEL, by default beside you as NAME.lineage.safetensors."""
    from hf_lineage import pipeline, store

    signature = pipeline.extract(model, _options(**settings))
    file = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    store.save_signature(signature, file)
    click.echo(printable(file))
    return 0


@cli.command(epilog=EPILOG)
@click.argument("model")
@_with(_LOCAL_HUB, click.option("--format", "form", type=click.Choice(["text", "json"]), default="text"), _OUTPUT)
def inspect(model: str, local_hub: Path | None, form: str, output: Path | None) -> int:
    """Look at one MODEL: trace concentration, pairing accuracy, what is read."""
    from hf_lineage import pipeline
    from hf_lineage.options import Options
    from hf_lineage.report import single

    _write(single.INSPECTIONS[form](pipeline.inspect(model, Options(local_hub=local_hub))), output)
    return 0


@cli.command()
@click.argument("architecture", metavar="[CLASS]", required=False)
@click.option(
    "--check",
    "model",
    metavar="MODEL",
    help="Say which factorizations the names and shapes of MODEL fit, and draft a new one; exit code 3 if none fits.",
)
@click.option("--coverage", is_flag=True, help="Count the classes of the installed transformers that are supported.")
@_with(_LOCAL_HUB, click.option("--format", "form", type=click.Choice(["text", "json"]), default="text"), _OUTPUT)
def registry(
    architecture: str | None, model: str | None, coverage: bool, local_hub: Path | None, form: str, output: Path | None
) -> int:
    """List the supported classes, or say how one CLASS is read."""
    if (architecture is not None) + (model is not None) + coverage > 1:
        raise click.UsageError("give one of a CLASS, --check MODEL and --coverage")
    if model is not None:
        return _suggest(model, local_hub, form, output)
    if coverage:
        from hf_lineage.coverage import coverage as measured
        from hf_lineage.report.coverage import COVERAGES

        _write(COVERAGES[form](measured()), output)
    else:
        from hf_lineage.report import single

        _write(single.REGISTRIES[form](architecture), output)
    return 0


def _suggest(model: str, local_hub: Path | None, form: str, output: Path | None) -> int:
    from hf_lineage import pipeline
    from hf_lineage.options import Options
    from hf_lineage.report.suggestion import SUGGESTIONS

    found = pipeline.suggest(model, Options(local_hub=local_hub))
    _write(SUGGESTIONS[form](found), output)
    return 0 if found.fits else UNDECIDED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on standard error."""
    try:
        code = cli.main(arguments, prog_name="hf-lineage", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ERROR
    except click.ClickException as error:
        return _failed(f"{error.format_message()} (--help shows what there is)")
    except (click.Abort, KeyboardInterrupt):
        click.echo("hf-lineage: interrupted", err=True)
        return INTERRUPTED
    except SystemExit:
        # click leaves like this, with 1, where nobody reads standard output any more; here 1 means UNRELATED.
        return ERROR
    except UnicodeEncodeError as error:
        return _failed(f"a name or the report cannot be written as {error.encoding}; try PYTHONIOENCODING=utf-8")
    except LineageError as error:
        return _failed(error)
    except (OSError, MemoryError) as error:
        return _failed(str(error) or "not enough memory; try --max-memory")
    return int(code or 0)


def _failed(why: object) -> int:
    click.echo(f"hf-lineage: {printable(why)}", err=True)
    return ERROR


def _options(recipe: str, paths: str, probes: int, exact: bool, **rest: Any) -> Options:
    from dataclasses import replace

    from hf_lineage.options import Options
    from hf_lineage.signature import RECIPES

    chosen = replace(RECIPES[recipe], probes=None if exact else probes)
    return Options(recipe=chosen, paths=tuple(path.strip() for path in paths.split(",")), **rest)


def _deliver(report: Report, form: str, output: Path | None, explain: bool) -> int:
    from hf_lineage.report import FORMATS

    _write(FORMATS[form](report, explain), output, coloured=form == "text")
    return int(report.exit_code)


def _write(text: str, output: Path | None, coloured: bool = False) -> None:
    from hf_lineage.report.text import colour
    from hf_lineage.store import write_atomically

    if output is not None:
        write_atomically(output, text.encode())
        return
    click.echo(colour(text) if coloured else text, nl=False, color=False if os.environ.get("NO_COLOR") else None)


if __name__ == "__main__":
    sys.exit(main())
