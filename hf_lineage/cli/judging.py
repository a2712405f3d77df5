"""The commands that judge: check and compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from hf_lineage.cli.completing import MODEL
from hf_lineage.cli.delivery import FAILS, POLICY, REPORT, Delivery, policy_of, ready_beside, under
from hf_lineage.cli.shared import (
    ALLOW_PICKLE,
    BASES,
    CLASSES,
    CONVERTED_FILE,
    EPILOG,
    MERGE_BASE,
    ON_HUB,
    SUBFOLDER,
    TEST,
    make_options,
    with_examples,
    with_options,
)
from hf_lineage.cli.surroundings import OneModel

CHECKING = with_examples(
    EPILOG,
    "hf-lineage check org/model",
    "hf-lineage check org/model@v2 --explain",
    "hf-lineage check ./folder --base org/base --format json",
    "hf-lineage check org/model --report html=page.html --report sarif=lineage.sarif",
)
COMPARING = with_examples(
    EPILOG,
    "hf-lineage compare org/base org/model --explain",
    "hf-lineage compare ./a ./b --audit",
    "hf-lineage compare org/model org/adapter --merge-base org/base",
    "hf-lineage compare org/base org/model --controls org/other other/third --relatives org/child --format html",
)
LISTS = ("--controls", "--relatives")
"""Options that take every word up to the next option."""


class Listing(click.Command):
    """A command with such options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the words, as any command; raise UsageError for an option without a word."""
        return super().parse_args(ctx, args if ctx.resilient_parsing else list(_spread(args)))


def _spread(words: Sequence[str]) -> Iterator[str]:
    """The words, each of a list behind an option of its own."""
    listing = ""
    for number, word in enumerate(words):
        if word == "--":
            yield from words[number:]
            return
        if word in LISTS and (number + 1 == len(words) or words[number + 1].startswith("-")):
            raise click.UsageError(f"{word} needs the name of at least one model")
        if word.startswith("-"):
            option = word.partition("=")[0]
            listing = option if option in LISTS else ""
        if word not in LISTS:
            yield from (listing, word) if listing and not word.startswith("-") else (word,)


NEAREST = click.option(
    "--index",
    "index",
    metavar="INDEX",
    help="Note which models of this index are nearer than the declared base; verdicts do not change. INDEX is a "
    "folder, or org/name on the Hub.",
)


@click.command(epilog=CHECKING, cls=OneModel)
@click.argument("model", type=MODEL)
@with_options(BASES, NEAREST, ON_HUB, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *TEST, *REPORT)
@with_options(POLICY, FAILS)
def check(
    model: str,
    bases: tuple[str, ...],
    index: str | None,
    on_hub: bool,
    policy: str | None,
    fail_on: str | None,
    **settings: Any,
) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage.checking import api
    from hf_lineage.checking.source import located

    delivery, options, search = Delivery.take(settings), make_options(**settings), None
    delivery.refuse(model)
    if index is not None:
        from hf_lineage.index.search import adoption as nearer

        search = nearer.searched(index)
    governed = policy_of(policy, fail_on, lambda: located(model, options, on_hub))
    report = api.check(model, bases, options, on_hub=on_hub)
    return delivery.deliver(under(search(report) if search else report, governed))


BESIDE = (
    click.option(
        LISTS[0],
        "independent",
        type=MODEL,
        multiple=True,
        metavar="MODEL...",
        help="Also compare A with these models, which are independent of it, and show them beside B.",
    ),
    click.option(
        LISTS[1],
        type=MODEL,
        multiple=True,
        metavar="MODEL...",
        help="The same for models that are known to be related to A.",
    ),
)


@click.command(epilog=COMPARING, cls=Listing)
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@with_options(*BESIDE, MERGE_BASE, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *TEST, *REPORT)
def compare(
    a: str, b: str, independent: tuple[str, ...], relatives: tuple[str, ...], merge_base: str, **settings: Any
) -> int:
    """Compare the weights of two models, whatever they declare."""
    from hf_lineage.checking import api, controls

    delivery = Delivery.take(settings)
    delivery.refuse(b)
    if not independent and not relatives:
        return delivery.deliver(api.compare(a, b, make_options(**settings), merge_base=merge_base))
    ready_beside(delivery)
    if merge_base:
        raise click.UsageError("--merge-base is for one pair; leave it or the controls out")
    return delivery.deliver_beside(controls.compare_beside(a, b, independent, relatives, make_options(**settings)))
