"""The command line: parse, call, render, exit code; nothing else."""

import contextlib
import errno
import functools
import importlib
import itertools
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import click

from hf_lineage import __version__
from hf_lineage.cli.options import EPILOG, QUIET, error_values, exit_code_of, with_examples
from hf_lineage.errors import OptionError, format_error, printable
from hf_lineage.options import moment, now


def fill_closed_streams() -> None:
    """Put the null device in the place of a closed standard stream, whose number the next file would take.

    Messages may be lost, so they are written there; a report may not, so that writing it fails.
    """
    modes = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    for number, (name, mode, flags) in enumerate(modes):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, flags), True)  # it takes the lowest number that is free
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _debug(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    common = context.ensure_object(dict)
    common["debug"] = common.get("debug", False) or wanted


DEBUG = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_debug,
    help="After an error, also show the traceback.",
)
HELP = {"help_option_names": ["-h", "--help"]}
MODULES = {  # each command and the module that defines it
    **dict.fromkeys(("check", "compare", "annotate"), "check"),
    **dict.fromkeys(("identify", "tree", "index"), "index"),
    **dict.fromkeys(("extract", "inspect", "registry"), "check"),
}


class Commands(Mapping[str, click.Command]):
    """The commands by name; the module of each is imported when it is first asked for."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in MODULES:
            raise KeyError(name)
        return _load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


@functools.cache
def _load_command(name: str) -> click.Command:
    command: click.Command = getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
    # Of the command as well: it keeps its help option as it first finds it, and may be parsed without the group.
    command.context_settings.update(HELP)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        QUIET(DEBUG(inner))
    return DEBUG(command) if isinstance(command, click.Group) else QUIET(DEBUG(command))


@click.group(
    commands=Commands(),
    epilog=with_examples(
        EPILOG,
        "hf-lineage check org/model",
        "hf-lineage compare org/base ./folder",
        "hf-lineage annotate org/model --pull-request",
    ),
    context_settings={**HELP, "max_content_width": 80},
)
@click.version_option(__version__, "-v", "-V", "--version", prog_name="hf-lineage")
@DEBUG
def cli() -> None:
    """Tell from weights alone whether a model really comes from the base it declares."""
    # Variables whose values would be errors of some package further on are refused by their names.
    moment(now())
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):  # the client of the Hub makes numbers of them
        value = os.environ.get(name, "0")
        try:
            int(value)
        except ValueError:
            raise OptionError(f"{name} must be a whole number of seconds, not {printable(value, 100)!r}") from None
    value = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    with contextlib.suppress(ValueError):  # of a port that is none
        address = urlsplit(value)
        if address.scheme in ("http", "https") and address.hostname and address.port != 0:
            return
    text = printable(value.rpartition("@")[2], 100)
    raise OptionError(f"HF_ENDPOINT must be the address of a Hub such as https://huggingface.co, not {text!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; an error is one line on standard error, and never ends with 1."""
    common, words = dict[str, bool](), list(sys.argv[1:] if arguments is None else arguments)
    try:
        fill_closed_streams()
        return int(cli.main(arguments, prog_name="hf-lineage", standalone_mode=False, obj=common) or 0)
    except BaseException as error:  # a panic of a library that is written in Rust is no Exception
        if common.get("debug"):
            with contextlib.suppress(OSError, ValueError):
                traceback.print_exc()
        return _print_error(error, words)
    finally:  # what fails at the end of the process would change its exit code
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                with contextlib.suppress(AttributeError, OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(error: BaseException, words: Sequence[str]) -> int:
    """Print the error, as JSON as well where that format is wanted, and return the exit code."""
    if isinstance(error, SystemExit) and error.code == 0:  # so click leaves where a shell has asked for completions
        return 0
    with contextlib.suppress(OSError, ValueError):
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        elif not isinstance(error, SystemExit):  # so click leaves where nobody reads standard output any more
            click.echo(f"hf-lineage: {printable(_message(error))}", err=True)
            if "--format=json" in words or ("--format", "json") in itertools.pairwise(words):
                click.echo(json.dumps(error_values(error, _message(error))))
    return exit_code_of(error)


def _message(error: BaseException) -> str:
    if isinstance(error, click.MissingParameter):  # whose choices stand on lines of their own
        return f"{' '.join(error.format_message().split())} (--help shows the usage)"
    if isinstance(error, click.ClickException):
        return f"{error.format_message()} (--help shows the usage)"
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "standard output is closed, so the result cannot be printed; leave it open, or name a file with -o"
    if isinstance(error, UnicodeEncodeError):
        return f"a name or the report cannot be encoded as {error.encoding}; try PYTHONIOENCODING=utf-8"
    return format_error(error)
