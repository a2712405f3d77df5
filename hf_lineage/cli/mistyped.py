"""What people type first and the program does not have: what is done instead, or what they are told to write."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from hf_lineage.errors import printable
from hf_lineage.files import is_folder, typed

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
