"""What a process finds when it starts: streams that may be closed, variables that may have no meaning, odd words.

For words that people type first and the program does not have, something else is done, or they are told what to write.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

import click

from hf_lineage.checking.results import clock
from hf_lineage.errors import OptionError, printable
from hf_lineage.files import is_folder, typed

STREAMS = {"stdin": ("r", os.O_RDONLY), "stdout": ("w", os.O_RDONLY), "stderr": ("w", os.O_WRONLY)}
"""By name, in the order of their numbers, how each is used, and how the null device is opened where it is closed.

Messages may be lost, so they are written there; a report may not, so that writing it fails.
"""
WHOLE_NUMBERS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")
"""Variables of which the client of the Hub makes a number when it is imported, and fails for want of one."""


ENDPOINT, PROTOCOLS = "HF_ENDPOINT", ("http", "https")


def fill_closed_streams() -> None:
    """Put the null device in the place of each standard stream that is closed.

    Otherwise the next file that is opened takes its number, and what is printed lands there; and progress bars fail.
    """
    for number, (name, (mode, flags)) in enumerate(STREAMS.items()):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, flags), True)  # it takes the lowest number that is free
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def refuse_unusable_variables() -> None:
    """Raise OptionError, which names it, for a variable whose value would be an error of some package further on."""
    clock.moment(clock.now())
    for name in WHOLE_NUMBERS:
        value = os.environ.get(name, "0")
        try:
            int(value)
        except ValueError:
            raise OptionError(f"{name} must be a whole number of seconds, not {printable(value, 100)!r}") from None
    value = os.environ.get(ENDPOINT, "https://huggingface.co")
    with contextlib.suppress(ValueError):  # of a port that is none
        address = urlsplit(value)
        if address.scheme in PROTOCOLS and address.hostname and address.port != 0:
            return
    shown = printable(value.rpartition("@")[2], 100)
    raise OptionError(f"{ENDPOINT} must be the address of a Hub such as https://huggingface.co, not {shown!r}")


SYNONYMS = {"version": "--version", "help": "--help"}
"""Words that other programs have as commands."""


class Program(click.Group):
    """A program that knows these words too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the words, as any group."""
        first, rest = args[:1], args[1:]
        return super().parse_args(ctx, [*(SYNONYMS.get(word, word) for word in first), *rest])


class OneModel(click.Command):
    """A command that takes one model, and says how a second one is named as its base."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the words, which is nothing; raise UsageError for a second model."""
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            raise click.UsageError(_of_bases(ctx.params["model"], ctx.params["bases"], rest), ctx)
        return rest


def _of_bases(model: str, bases: Sequence[str], extra: Sequence[str]) -> str:
    own, second, *named = (typed(name) if is_folder(name) else name for name in (model, extra[0], *bases, *extra))
    options = [word for base in named for word in ("--base", base)]
    checked = shlex.join(["hf-lineage", "check", own, *options])
    compared = shlex.join(["hf-lineage", "compare", second, own])
    return printable(
        f"Got unexpected extra argument ({' '.join(extra)}); to check a base, write `{checked}`; to compare two "
        f"models, whatever they declare, write `{compared}`"
    )


def option_meant(error: click.NoSuchOption) -> str:
    """Return what is wrong with an option that there is not; for the name of a format, how the format is asked for."""
    name = error.option_name.lstrip("-")
    formats = (option for option in (error.ctx.command.params if error.ctx else ()) if option.name == "form")
    if any(name in option.type.choices for option in formats if isinstance(option.type, click.Choice)):
        return f"{error.message} Write --format {name}"
    return error.format_message()
