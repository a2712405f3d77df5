"""Parts that several commands share: options, exit codes, and how a result is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.architecture.registry import PATHS, USUAL
from hf_lineage.checking import FLAG, SETTINGS, ValueKind
from hf_lineage.cli.kinds import Command, writable
from hf_lineage.errors import LineageError, NetworkError, RepositoryError, printable
from hf_lineage.evidence import Criteria

if TYPE_CHECKING:
    from hf_lineage.checking import Options

ERROR, UNDECIDED, TRY_AGAIN, INTERRUPTED = 2, 3, 4, 130

EPILOG = (
    "A model is org/name, org/name@revision, a folder as ./name, or a signature file that `extract` wrote. "
    "Exit codes: 0 every claim VERIFIED, 1 a claim UNRELATED, 2 usage or input error, 3 RELATED or UNDECIDED, "
    "4 the Hub or the network failed, 130 interrupted."
)
EXAMPLES = "Examples:"


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


class Value(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """The value of an option of the table of settings, as it is typed."""

    name = "value"

    def __init__(self, kind: ValueKind) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return what is typed as the value that Options takes."""
        try:
            return self.kind.read(value) if isinstance(value, str) else value
        except (ValueError, LookupError, OverflowError):
            self.fail(f"{printable(repr(value), 100)} is not {self.kind.words}", param, context)


def _option(name: str, **more: Any) -> Callable[[Command], Command]:
    """Return the command-line option of a row of the table."""
    row = SETTINGS[name]
    if row.kind is FLAG:
        more["is_flag"] = True
    else:
        more |= {"type": click.Choice(row.kind.choices) if row.kind.choices else Value(row.kind)}
    names = (row.flag or f"--{name.replace('_', '-')}", name)
    return click.option(*names, metavar=row.metavar, multiple=row.multiple, help=row.help, **more)


def settings(*names: str, paths: str = USUAL[0]) -> tuple[Callable[[Command], Command], ...]:
    """Return the options of the table of these names, or all of them, in its order."""
    wanted = names or tuple(name for name, row in SETTINGS.items() if row.help)
    usual: dict[str, Any] = {"paths": paths, "alpha": Criteria.alpha}
    more = {name: {"default": value, "show_default": True} for name, value in usual.items()}
    return tuple(_option(name, **more.get(name, {})) for name in SETTINGS if name in wanted)


OF_MODELS = ("file", "allow_pickle", "as_class", "local_hub")
"""Options that say which model is meant and what may be read of it."""
FIRST = next(iter(PATHS))
"""Path along which an index is kept."""
OF_SIGNATURES = (*OF_MODELS, "paths", "recompute")
"""Options that say how models become signatures."""


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that applies all options in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def make_options(as_class: str | None = None, **rest: Any) -> Options:
    """Return the Options of a command from the values of its command-line options."""
    from hf_lineage.checking import Options

    # A class has no separator in its name, and a folder is written as a path.
    chosen: dict[str, Any] = {"registry" if "/" in (as_class or "") else "as_class": as_class}
    return Options(**chosen, **rest)
