"""Options: their kinds, such as a path and where it may lie; those that belong together; and where results go."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from hf_lineage.errors import printable
from hf_lineage.files import link_on_the_way

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Command = TypeVar("Command", bound=Callable[..., Any])
Group = TypeVar("Group", bound="DataclassInstance")


class ModelName(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """A model as the user names it: any text, and files and folders are offered."""

    name = "text"

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """Leave it to the shell to offer paths."""
        return [CompletionItem(incomplete, type="file")]


MODEL = ModelName()


def format_option(*names: str) -> Callable[[Command], Command]:
    """Return the option for the format of a result that is no report of claims, text by default."""
    return click.option(
        "--format", "form", type=click.Choice(names), default="text", show_default=True, help="Format of the result."
    )


def path_option(name: str, metavar: str, text: str, **more: Any) -> Callable[[Command], Command]:
    """Return an option for a file or a folder."""
    return click.option(name, type=click.Path(path_type=Path), metavar=metavar, help=text, **more)


def count_option(name: str, text: str, default: int, most: int) -> Callable[[Command], Command]:
    """Return an option for a number of things, at least one."""
    number = click.IntRange(1, most)
    return click.option(name, type=number, default=default, show_default=True, metavar="N", help=text)


def writable(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before any weights are read, which may take an hour."""
    try:
        writes = file is None or file.exists() or (file.parent.is_dir() and os.access(file.parent, os.W_OK))
    except OSError as error:
        raise click.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}; name another file") from None
    if file is not None and not writes:
        raise click.BadParameter(f"there is no folder {str(file.parent)!r} that can be written to; make it first")
    if file is not None and file.is_dir():
        raise click.BadParameter(f"{str(file)!r} is a folder; name a file in it")
    return None if file is None else _unlinked(file, file.parent)


def unlinked(_context: click.Context, _option: click.Parameter, folder: Path | None) -> Path | None:
    """Refuse a folder to which a link of a checkout leads: whoever wrote the checkout chose where."""
    return None if folder is None else _unlinked(folder, folder)


def _unlinked(path: Path, folder: Path) -> Path:
    if link := link_on_the_way(folder):
        raise click.BadParameter(f"{str(link)!r} is a link and is not followed; name the place that it leads to")
    return path


def write(text: str, output: Path | None, coloured: bool = False) -> None:
    """Write a result to a file, or to standard output."""
    from hf_lineage.files import write_output
    from hf_lineage.report.formats import colour

    if output is not None:
        write_output(output, text.encode())
        return
    click.echo(colour(text) if coloured else text, nl=False, color=False if os.environ.get("NO_COLOR") else None)


def take(group: type[Group], settings: dict[str, Any]) -> Group:
    """Take the values of the options of a group out of those of a command; its fields are called as they are."""
    return group(**{field.name: settings.pop(field.name) for field in fields(group)})


@dataclass(frozen=True)
class Result:
    """Format and place of the result of a command that judges no claims."""

    form: str
    output: Path | None

    def write(self, forms: Mapping[str, Callable[..., str]], *values: Any, coloured: bool = False) -> None:
        """Write values by one of the formats of the command; `coloured` counts for text alone."""
        write(forms[self.form](*values), self.output, coloured=coloured and self.form == "text")


def _silenced(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Keep results, warnings and progress bars back until the command ends."""
    if wanted:
        context.with_resource(_silence())


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    threshold, shown = logging.root.manager.disable, not are_progress_bars_disabled()
    logging.disable(logging.WARNING)
    if shown:
        disable_progress_bars()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(threshold)
        if shown:
            enable_progress_bars()


def remark(notes: Iterable[str]) -> None:
    """Write what is no error to standard error, a line each, unless nothing but errors is wanted."""
    for note in notes if logging.root.manager.disable < logging.WARNING else ():
        click.echo(printable(note), err=True)


QUIET = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_silenced,
    help="Print only errors; the exit code shows the result. Files are written as usual.",
)
