"""Options and exit codes that several commands share, and the results that they write."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hf_lineage.architecture.paths import PATHS, USUAL
from hf_lineage.errors import LineageError, NetworkError, RepositoryError, printable
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.files.paths import link_on_the_way
from hf_lineage.options import FLAG, SETTINGS, ValueKind

if TYPE_CHECKING:
    from hf_lineage.source.options import Options

Command = TypeVar("Command", bound=Callable[..., Any])
MODEL = click.Path(readable=False)  # a model as the user names it: any text, and the shell offers files and folders


def format_option(*names: str, text: str = "Format of the result.") -> Callable[[Command], Command]:
    """Return the option for the format of a result, text by default."""
    return click.option("--format", "form", type=click.Choice(names), default="text", show_default=True, help=text)


def count_option(name: str, text: str, default: int, most: int) -> Callable[[Command], Command]:
    """Return an option for a number of things, at least one."""
    number = click.IntRange(1, most)
    return click.option(name, type=number, default=default, show_default=True, metavar="N", help=text)


def writable(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before any weights are read, which may take an hour."""
    if file is None:
        return None
    try:
        writes = file.exists() or (file.parent.is_dir() and os.access(file.parent, os.W_OK))
    except OSError as error:
        raise click.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}; name another file") from None
    if not writes:
        raise click.BadParameter(f"there is no folder {str(file.parent)!r} that can be written to; make it first")
    if file.is_dir():
        raise click.BadParameter(f"{str(file)!r} is a folder; name a file in it")
    refuse_link(context, option, file.parent)
    return file


def refuse_link(_context: click.Context, _option: click.Parameter, folder: Path | None) -> Path | None:
    """Refuse a folder to which a link of a checkout leads: whoever wrote the checkout chose where."""
    if folder is not None and (link := link_on_the_way(folder)):
        raise click.BadParameter(f"{str(link)!r} is a link and is not followed; name the place that it leads to")
    return folder


def write(text: str, output: Path | None, coloured: bool = False) -> None:
    """Write a result to a file, or to standard output."""
    from hf_lineage.files.atomic import write_output
    from hf_lineage.report.text import colour

    if output is not None:
        write_output(output, text.encode())
        return
    click.echo(colour(text) if coloured else text, nl=False, color=False if os.environ.get("NO_COLOR") else None)


def _silence(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hf_lineage.hub.client import without_bars

        context.call_on_close(functools.partial(logging.disable, logging.root.manager.disable))
        logging.disable(logging.WARNING)
        context.with_resource(without_bars())
        context.with_resource(contextlib.redirect_stdout(io.StringIO()))


def remark(notes: Iterable[str]) -> None:
    """Write what is no error to standard error, a line each, unless nothing but errors is wanted."""
    for note in notes if logging.root.manager.disable < logging.WARNING else ():
        click.echo(printable(note), err=True)


QUIET = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_silence,
    help="Print only errors; the exit code shows the result. Files are written as usual.",
)

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


def command(text: str, *examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator that makes a command, with this text and examples below its help."""
    return click.command(epilog=with_examples(text, *examples))


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


def _reader(kind: ValueKind) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return kind.read(value) if isinstance(value, str) else value
        except (ValueError, LookupError, OverflowError):
            raise click.BadParameter(f"{printable(repr(value), 100)} is not {kind.words}") from None

    return read


def settings(*names: str, paths: str = USUAL[0]) -> tuple[Callable[[Command], Command], ...]:
    """Return the options of the table of these names, or all of them, in its order."""
    usual, options = {"paths": paths, "alpha": Criteria.alpha}, []
    for name, row in SETTINGS.items():
        if name in names or (not names and row.help):
            more: dict[str, Any] = {"default": usual[name], "show_default": True} if name in usual else {}
            if row.kind is FLAG:
                more["is_flag"] = True
            else:
                more["type"] = click.Choice(row.kind.choices) if row.kind.choices else _reader(row.kind)
            flag = row.flag or f"--{name.replace('_', '-')}"
            options.append(click.option(flag, name, metavar=row.metavar, multiple=row.multiple, help=row.help, **more))
    return tuple(options)


OF_MODELS = ("file", "allow_pickle", "as_class", "local_hub")  # which model is meant, what is read
FIRST = next(iter(PATHS))  # path along which an index is kept
OF_SIGNATURES = (*OF_MODELS, "paths", "recompute")  # options that say how models become signatures


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that applies all options in the order given."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


def has_separator(text: str) -> bool:
    """Return whether a text is written as a path, with a separator of folders of any system."""
    return not set("/\\").isdisjoint(text)


def make_options(as_class: str | None = None, **rest: Any) -> Options:
    """Return the Options of a command from the values of its command-line options."""
    from hf_lineage.source.options import Options

    # A class has no separator in its name, and a folder is written as a path.
    chosen: dict[str, Any] = {"registry" if has_separator(as_class or "") else "as_class": as_class}
    return Options(**chosen, **rest)
