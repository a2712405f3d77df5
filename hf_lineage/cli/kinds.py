"""Kinds of options: a format, a path, a number of things."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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
