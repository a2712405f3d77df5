"""What several commands share: options, exit codes, and how a result is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hf_lineage.architecture.registry import ALL, PATHS
from hf_lineage.cli.kinds import Command, path_option, trusted, writable
from hf_lineage.evidence import ACCEPTABLE, ADMITTED, BUDGETS, Procedure
from hf_lineage.files import places
from hf_lineage.signature import PARAMETERS

if TYPE_CHECKING:
    from hf_lineage.checking import Options

ERROR, UNDECIDED, INTERRUPTED = 2, 3, 130

EPILOG = (
    "A model is org/name, org/name@revision, a folder as ./name, or a signature file that `extract` wrote. "
    "Exit codes: 0 every claim verified, 1 a claim UNRELATED, 2 usage or input error, 3 undecided or RELATED in part, "
    "130 interrupted."
)
EXAMPLES = "Examples:"
AUDIT = "Compare all layers along all paths, for a model that may hide its descent: --budget full --paths all."


def with_examples(text: str, *commands: str) -> str:
    """Return the text below the help of a command, with examples of how the command is called, a line each."""
    return "\n\n".join((text, "\n  ".join((f"\b\n{EXAMPLES}", *commands))))


LOCAL_HUB = path_option(
    "--local-hub", "DIR", "A folder of org/name folders in which models are searched before the Hub is asked."
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=writable,
    metavar="FILE",
    help="Write the result into FILE.",
)
BASES = click.option(
    "--base", "bases", multiple=True, metavar="BASE", help="Check this base instead of the declared one; repeatable."
)
ON_HUB = click.option("--on-hub", is_flag=True, help="MODEL is a name on the Hub, even if a folder here bears it.")
CONVERTED_FILE = click.option(
    "--file",
    metavar="NAME",
    help="The GGUF, ONNX or CTranslate2 file to read of MODEL, or of B; by default the most precise by its name.",
)
ALLOW_PICKLE = click.option(
    "--allow-pickle",
    is_flag=True,
    help="Read the tensors of weights that are stored as pickles, of bases as well; nothing in them is run.",
)
RECIPE = (
    click.option(
        "--recipe",
        type=click.Choice(list(PARAMETERS)),
        default=next(iter(PARAMETERS)),
        show_default=True,
        help="How weights become numbers: robust, or the method as published, paper.",
    ),
    click.option(
        "--paths",
        default="mlp",
        show_default=True,
        metavar="LIST",
        help=f"Paths through a layer to compare, separated by commas: {', '.join(PATHS)}; or all, every path that the "
        "models have.",
    ),
    click.option(
        "--probes",
        type=int,
        default=64,
        show_default=True,
        metavar="K",
        help="Random probe vectors: more of them make the sketch more exact, and larger.",
    ),
    click.option("--exact", is_flag=True, help="Compute the whole product of every branch, not a sketch of it."),
    click.option("--max-memory", metavar="SIZE", help="Memory to use on each device at most, such as 8GiB."),
    LOCAL_HUB,
)
SUBFOLDER = click.option(
    "--subfolder",
    default="",
    metavar="DIR",
    help="The folder of the repository in which the model is; by default the root, or every folder with a model.",
)
MERGE_BASE = click.option(
    "--merge-base",
    default="",
    metavar="BASE",
    help="B is a LoRA adapter: compare A with BASE plus this adapter, to tell whether A was made with it.",
)
CLASSES = (
    click.option(
        "--as", "as_class", metavar="CLASS", help="Read a model whose class the registry does not list as this class."
    ),
    path_option(
        "--registry",
        "DIR",
        "Read classes that the registry does not list by the factorizations in this folder, which you wrote.",
    ),
)
RECOMPUTE = click.option(
    "--recompute", is_flag=True, help="Read the weights, even if a signature of them is cached or published."
)
READING = (SUBFOLDER, ALLOW_PICKLE, *CLASSES, *RECIPE, RECOMPUTE)
"""How models become signatures, for the commands that read several of them."""
TEST = (
    click.option(
        "--alpha", type=float, default=Procedure.alpha, show_default=True, help="Significance level of the test."
    ),
    click.option(
        "--permutations",
        type=int,
        default=Procedure.permutations,
        show_default=True,
        metavar="N",
        help="Permutations that are drawn first; 20 times as many follow where the p-value is near alpha.",
    ),
    click.option("--seed", type=int, default=Procedure.seed, show_default=True, help="Seed of the permutations."),
    click.option(
        "--budget",
        type=click.Choice(BUDGETS),
        help="quick stops reading layers once the verdict is clear, full reads all; by default quick, unless --null or "
        "--exact need all layers.",
    ),
    click.option("--audit", is_flag=True, help=AUDIT),
    click.option(
        "--order-seed",
        type=int,
        metavar="N",
        help="Seed of the order of layers and of the sample of hidden units; by default a new one for each run.",
    ),
    click.option(
        "--accept",
        multiple=True,
        type=click.Choice(ACCEPTABLE),
        help="Return 0 for RELATED in part, by the basis only, or by trace weakly, as well; repeatable.",
    ),
    click.option(
        "--evidence",
        type=click.Choice(ADMITTED),
        default=Procedure.evidence,
        show_default=True,
        help="exact accepts exact tests alone, and returns 3 for RELATED, calibrated.",
    ),
    click.option(
        "--min-share",
        type=float,
        default=Procedure.min_share,
        show_default=True,
        metavar="SHARE",
        help="Verify a claim only if more than this share of the model is inherited.",
    ),
    click.option(
        "--null",
        "nulls",
        multiple=True,
        metavar="MODEL",
        help="Test the score against this independent model, or published null, as well; repeatable.",
    ),
    RECOMPUTE,
    click.option(
        "--published",
        is_flag=True,
        help="Download no weights of a base: use its published signature.",
    ),
    click.option(
        "--signatures",
        multiple=True,
        metavar="REPO",
        envvar="HF_LINEAGE_SIGNATURES",
        help="Search this repository on the Hub, too, for published signatures of bases; repeatable.",
    ),
    path_option(
        "--trust",
        "FILE",
        "Which published signatures are trusted; by default hf-lineage/trust.yaml in ~/.config.",
        envvar=places.TRUST,
        callback=trusted,
    ),
)


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """All options in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def make_options(recipe: str, paths: str, probes: int, exact: bool, audit: bool = False, **rest: Any) -> Options:
    """Return the Options of a command from the values of its command-line options."""
    from dataclasses import replace

    from hf_lineage.checking import Options
    from hf_lineage.signature import RECIPES

    if audit:
        source = click.get_current_context().get_parameter_source
        if ParameterSource.COMMANDLINE in map(source, ("paths", "budget")):
            raise click.UsageError("--audit is --budget full --paths all; leave these two out")
        paths, rest["budget"] = ALL[0], "full"
    chosen = replace(RECIPES[recipe], probes=None if exact else probes)
    return Options(recipe=chosen, paths=tuple(map(str.strip, paths.split(","))), **rest)


def write(text: str, output: Path | None, coloured: bool = False) -> None:
    """Write a result to a file, or to standard output."""
    from hf_lineage.files import write_output
    from hf_lineage.report.formats import colour

    if output is not None:
        write_output(output, text.encode())
        return
    click.echo(colour(text) if coloured else text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
