"""Parts that several commands share: options, exit codes, and how a result is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hf_lineage.architecture.registry import ALL, PATHS, USUAL
from hf_lineage.checking import TYPED, read_pairs
from hf_lineage.cli.kinds import Command, path_option, writable
from hf_lineage.errors import LineageError, NetworkError, OptionError, RepositoryError, printable
from hf_lineage.evidence import ACCEPTABLE, BUDGETS
from hf_lineage.signature import PARAMETERS

if TYPE_CHECKING:
    from hf_lineage.checking import Options

ERROR, UNDECIDED, TRY_AGAIN, INTERRUPTED = 2, 3, 4, 130

EPILOG = (
    "A model is org/name, org/name@revision, a folder as ./name, or a signature file that `extract` wrote. "
    "Exit codes: 0 every claim VERIFIED, 1 a claim UNRELATED, 2 usage or input error, 3 RELATED or UNDECIDED, "
    "4 the Hub or the network failed, 130 interrupted."
)
EXAMPLES = "Examples:"
AUDIT = "Compare all layers along all paths, for a model that may hide its descent: --budget full --paths all."
RUN = (
    "Run the model on a text, never code of its own, and verify nothing if it does not use what it has in common with "
    "the base; needs the extra `run`."
)

STRICT = (
    "Hold every number of every tensor against the base's: whether MODEL is its quantization, or its numbers, and "
    "nothing else; 3 if not."
)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of an error: none is 1, which means UNRELATED."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    return TRY_AGAIN if isinstance(error, NetworkError) else ERROR


def error_values(error: BaseException, message: str) -> dict[str, dict[str, str]]:
    """Return an error for JSON: its code, which never changes, what went wrong, and what to do."""
    text, _, remedy = printable(message).rpartition("; ")
    if isinstance(error, click.Abort | KeyboardInterrupt):
        code = "interrupted"
    elif isinstance(error, click.ClickException):
        code = "usage"
    elif isinstance(error, LineageError):
        code = "no-model" if error.code == RepositoryError.code else error.code
    else:
        code = "internal"
    return {"error": {"code": code, "message": text or remedy, "remedy": remedy if text else ""}}


def with_examples(text: str, *commands: str) -> str:
    """Return the text below the help of a command, with examples of how the command is called, a line each."""
    return "\n\n".join((text, "\n  ".join((f"\b\n{EXAMPLES}", *commands))))


LOCAL_HUB = path_option(
    "--local-hub", "DIR", "A folder with org/name folders; models are searched there first, then on the Hub."
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=writable,
    metavar="FILE",
    help="Write the result to FILE.",
)
BASES = click.option(
    "--base", "bases", multiple=True, metavar="BASE", help="Check this base instead of the declared one; repeatable."
)
ON_HUB = click.option("--on-hub", is_flag=True, help="MODEL is a name on the Hub, even if a folder here has it too.")
CONVERTED_FILE = click.option(
    "--file",
    metavar="NAME",
    help="The GGUF or ONNX file of MODEL, or of B, to read; all: each GGUF file. By default the most precise by name.",
)
ALLOW_PICKLE = click.option(
    "--allow-pickle", is_flag=True, help="Also read tensors from pickles, of bases too; nothing in them is run."
)
PATHS_OF_LAYERS, PATHS_OF_INDEX = (
    click.option(
        "--paths",
        default=usual,
        show_default=True,
        metavar="LIST",
        help=f"Paths through a layer to compare, separated by commas: {', '.join(PATHS)}; usual, the MLP and values of "
        "attention; or all.",
    )
    for usual in (USUAL[0], next(iter(PATHS)))
)


class SetOption(click.Option):
    """The option that sets what is seldom typed, out of some keys."""

    def __init__(self, *names: Any, keys: tuple[str, ...], **more: Any) -> None:
        super().__init__(*names, **more)
        self.keys = keys


def set_option(*keys: str) -> Callable[[Command], Command]:
    """Return the option that sets what is seldom typed, out of these keys."""

    def read(context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
        if "help" in pairs:
            click.echo(settings_help(keys))
            context.exit()
        try:
            return read_pairs(pairs, keys)
        except OptionError as error:
            raise click.BadParameter(str(error)) from None

    return click.option(
        "--set",
        "settings",
        multiple=True,
        callback=read,
        metavar="KEY=VALUE",
        cls=SetOption,
        keys=keys,
        help="Set a rarely used option, such as alpha=0.001; repeatable. --set help lists every KEY.",
    )


def settings_help(keys: Iterable[str]) -> str:
    """Return what each key of `--set` does, with its usual value."""
    formatter = click.HelpFormatter(width=80)
    formatter.write_dl([(f"{key}={TYPED[key].kind.metavar}", described(key)) for key in keys], col_max=24)
    return formatter.getvalue().rstrip("\n")


def described(key: str) -> str:
    """Return what a key of `--set` does, with its usual value where it has one."""
    from hf_lineage.checking import Options

    usual = {"recipe": next(iter(PARAMETERS)), "probes": Options.recipe.probes}
    name = key.replace("-", "_")
    value = usual.get(key, getattr(Options, name, None))
    shown = "no" if value is False else value or None if isinstance(value, tuple) else value
    return TYPED[key].help + ("" if shown is None else f"  [default: {shown}]")


SUBFOLDER = click.option(
    "--subfolder",
    default="",
    metavar="DIR",
    help="The folder of the repository that holds the model; by default the root, or every folder with a model.",
)
CLASSES = (
    click.option(
        "--as", "as_class", metavar="CLASS", help="Read a model as this class if the registry does not list its own."
    ),
    path_option(
        "--registry",
        "DIR",
        "For classes that the registry does not list, use the factorizations in this folder, which you wrote.",
    ),
)
OF_SIGNATURES = ("recipe", "probes", "max-memory", "recompute")
"""Keys of how models become signatures."""
SET = set_option(*OF_SIGNATURES)
READING = (SUBFOLDER, ALLOW_PICKLE, *CLASSES, PATHS_OF_INDEX, LOCAL_HUB)
"""Options that say how models become signatures, for the commands that read several of them; beside `--set`."""
TEST = (
    PATHS_OF_LAYERS,
    LOCAL_HUB,
    click.option(
        "--budget",
        type=click.Choice(BUDGETS),
        help="quick stops reading layers once the verdict is clear, full reads all; by default quick, unless --null or "
        "probes=exact need all layers.",
    ),
    click.option("--audit", is_flag=True, help=AUDIT),
    click.option("--run", is_flag=True, help=RUN),
    click.option("--strict", is_flag=True, help=STRICT),
    click.option(
        "--accept",
        multiple=True,
        type=click.Choice(ACCEPTABLE),
        help="Also return 0 for a claim that is RELATED with this code; repeatable.",
    ),
    click.option(
        "--null",
        "nulls",
        multiple=True,
        metavar="MODEL",
        help="Also test the score against this independent model, or published null; repeatable.",
    ),
    set_option(*TYPED),
)


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that applies all options in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def make_options(paths: str, settings: Mapping[str, Any], audit: bool = False, **rest: Any) -> Options:
    """Return the Options of a command from the values of its command-line options."""
    from dataclasses import replace

    from hf_lineage.checking import Options
    from hf_lineage.signature import RECIPES

    if audit:
        source = click.get_current_context().get_parameter_source
        if ParameterSource.COMMANDLINE in map(source, ("paths", "budget")):
            raise click.UsageError("--audit means --budget full --paths all; leave these two out")
        paths, rest["budget"] = ALL[0], "full"
    others = dict(settings)
    recipe = RECIPES[others.pop("recipe", next(iter(RECIPES)))]
    recipe = replace(recipe, probes=others.pop("probes", recipe.probes))
    return Options(recipe=recipe, paths=tuple(map(str.strip, paths.split(","))), **rest, **others)
