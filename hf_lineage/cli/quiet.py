"""Quiet: the option that keeps back all that a command prints but its errors."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterable, Iterator

import click

from hf_lineage.errors import printable


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
