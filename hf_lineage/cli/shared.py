"""What several commands share: options, exit codes, and how a result is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hf_lineage.options import Options

ERROR, UNDECIDED, INTERRUPTED = 2, 3, 130

EPILOG = (
    "MODEL is org/name, org/name@revision, a folder, or a signature that `extract` wrote. "
    "Exit codes: 0 every claim verified, 1 a claim UNRELATED, 2 usage or input error, 3 undecided or RELATED in part, "
    "130 interrupted."
)
Command = TypeVar("Command", bound=Callable[..., Any])


def writable(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse at once what would fail after an hour of extraction."""
    try:
        writes = file is None or file.exists() or os.access(file.parent, os.W_OK)
    except OSError as error:
        raise click.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}; name another file") from None
    if file is not None and not writes:
        raise click.BadParameter(f"there is no folder {str(file.parent)!r} that can be written to; make it first")
    return file


def _drawable(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse at once what cannot be drawn: another suffix, or no matplotlib."""
    if file is not None:
        from hf_lineage.report import plot

        plot.ready(file)
    return writable(context, option, file)


LOCAL_HUB = click.option(
    "--local-hub", type=click.Path(path_type=Path), metavar="DIR", help="Folder of org/name folders to look into first."
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=writable,
    metavar="FILE",
    help="Write here instead.",
)
BASES = click.option(
    "--base", "bases", multiple=True, metavar="BASE", help="Check this base instead of what is declared; repeatable."
)
RECIPE = (
    click.option(
        "--recipe",
        type=click.Choice(["robust", "robust-1", "paper"]),
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
    LOCAL_HUB,
)
RECOMPUTE = click.option("--recompute", is_flag=True, help="Read weights, whatever is cached or published of them.")
TEST = (
    click.option("--alpha", type=float, default=0.01, show_default=True, help="Significance level."),
    click.option(
        "--permutations",
        type=int,
        default=999,
        show_default=True,
        metavar="N",
        help="Drawn at first; 20 times as many near alpha.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of the permutations."),
    click.option(
        "--budget",
        type=click.Choice(["quick", "full"]),
        help="Stop at the first layers that decide, or read all; quick for models on the Hub, full for others.",
    ),
    click.option(
        "--order-seed",
        type=int,
        metavar="N",
        help="Of the order of layers and the units looked up; drawn anew for each run.",
    ),
    click.option(
        "--accept",
        multiple=True,
        type=click.Choice(["part", "basis"]),
        help="Return 0 for RELATED in part, or by the basis only, too; repeatable.",
    ),
    click.option(
        "--min-share",
        type=float,
        default=0.5,
        show_default=True,
        metavar="SHARE",
        help="A claim is verified if more than this share of the model is inherited.",
    ),
    click.option(
        "--null", "nulls", multiple=True, metavar="MODEL", help="Independent model, or published null; repeatable."
    ),
    RECOMPUTE,
    click.option(
        "--signatures",
        multiple=True,
        metavar="REPO",
        envvar="HF_LINEAGE_SIGNATURES",
        help="Look on the Hub for signatures of bases here too; repeatable.",
    ),
    click.option(
        "--trust",
        type=click.Path(path_type=Path),
        metavar="FILE",
        envvar="HF_LINEAGE_TRUST",
        help="Which published signatures you believe; by default hf-lineage/trust.yaml in ~/.config.",
    ),
)
FORMATS = ("text", "json", "markdown", "html", "badge", "sarif", "junit", "cyclonedx", "intoto")
"""Those of hf_lineage.report, whose import takes longer than --help should."""
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="html is a page by itself, badge a small SVG.",
)
PLOT = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_drawable,
    metavar="FILE",
    help="Draw the similarity of all layers as well, into FILE.png or FILE.svg.",
)
REPORT = (FORMAT, OUTPUT, PLOT, click.option("--explain", is_flag=True, help="Each layer, the null, and the limits."))


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """All options in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def make_options(recipe: str, paths: str, probes: int, exact: bool, **rest: Any) -> Options:
    """Return what a command depends on besides the models, from its options."""
    from dataclasses import replace

    from hf_lineage.options import Options
    from hf_lineage.recipe import RECIPES

    chosen = replace(RECIPES[recipe], probes=None if exact else probes)
    return Options(recipe=chosen, paths=tuple(path.strip() for path in paths.split(",")), **rest)


def write(text: str, output: Path | None, coloured: bool = False) -> None:
    """Write a result to a file, or to standard output."""
    from hf_lineage.atomic import write_atomically
    from hf_lineage.report.text import colour

    if output is not None:
        write_atomically(output, text.encode())
        return
    click.echo(colour(text) if coloured else text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
