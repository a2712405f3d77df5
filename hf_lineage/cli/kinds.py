"""Kinds of options: a format, a path and where it may lie, a number of things."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hf_lineage.files import link_on_the_way

Command = TypeVar("Command", bound=Callable[..., Any])


def format_option(*names: str) -> Callable[[Command], Command]:
    """Return the option for the format of a result that is no report of claims, text by default."""
    return click.option(
        "--format", "form", type=click.Choice(names), default="text", show_default=True, help="Format of the result."
    )


def path_option(name: str, metavar: str, text: str, **more: Any) -> Callable[[Command], Command]:
    """Return an option for a file or a folder."""
    return click.option(name, type=click.Path(path_type=Path), metavar=metavar, help=text, **more)


def count_option(
    name: str, text: str, default: int, least: int = 1, most: int | None = None
) -> Callable[[Command], Command]:
    """Return an option for a number of things."""
    number = click.IntRange(least, most)
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
