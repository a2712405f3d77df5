"""The commands that judge: check and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.delivery import FAILS, POLICY, REPORT, Delivery, policy_of, under
from hf_lineage.cli.kinds import MODEL, path_option, write
from hf_lineage.cli.shared import (
    BASES,
    EPILOG,
    make_options,
    settings,
    with_examples,
    with_options,
)

if TYPE_CHECKING:
    from hf_lineage.checking import Report

CHECKING = with_examples(
    EPILOG,
    "hf-lineage check org/model",
    "hf-lineage check org/model@v2 --explain",
    "hf-lineage check ./folder --base org/base --format json",
    "hf-lineage check org/model -o html=page.html -o sarif=lineage.sarif",
    "hf-lineage check org/one org/two ./three",
)
COMPARING = with_examples(
    EPILOG,
    "hf-lineage compare org/base org/model --explain",
    "hf-lineage compare ./a ./b --budget full --paths all",
    "hf-lineage compare org/base org/model org/other other/third --format html",
)
NEAREST = click.option(
    "--index",
    "index",
    metavar="INDEX",
    help="Note which models of this index are nearer than the declared base; verdicts do not change. INDEX is a "
    "folder, or org/name on the Hub.",
)

VERIFY = path_option(
    "--verify",
    "FILE",
    "Check the JSON report in FILE, such as lineage/claims.json, again with its settings, and print what differs; 1 "
    "where a word or code does. MODEL is that of FILE if it is left out.",
)


@click.command(epilog=CHECKING)
@click.argument("models", type=MODEL, nargs=-1, metavar="MODEL...")
@with_options(BASES, VERIFY, NEAREST, *settings(), *REPORT)
@with_options(POLICY, FAILS)
def check(
    models: tuple[str, ...],
    bases: tuple[str, ...],
    verify: Path | None,
    index: str | None,
    policy: str | None,
    fail_on: str | None,
    **values: Any,
) -> int:
    """Verify what MODEL declares about its base: one row for each claim. Several models make one table."""
    from hf_lineage.checking import api
    from hf_lineage.checking.source import located

    delivery, options, search = Delivery.take(values), make_options(**values), None
    if verify is not None:
        from hf_lineage.cli.verifying import verified

        text, code = verified(verify, models, bases, options)
        write(text, delivery.output)
        return code
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if index is not None:
        from hf_lineage.index.search import adoption as nearer

        search = nearer.searched(index)

    def governed(model: str) -> Report:
        asked = policy_of(policy, fail_on, lambda: located(model, options))
        report = api.check(model, bases, options)
        return under(search(report) if search else report, asked)

    if models[1:]:
        from hf_lineage.cli.several import check_several

        return check_several(models, governed, delivery.form, delivery.output, delivery.only_one)
    return delivery.deliver(governed(models[0]))


@click.command(epilog=COMPARING)
@click.argument("a", type=MODEL)
@click.argument("models", type=MODEL, nargs=-1, required=True, metavar="B [C ...]")
@with_options(*settings(), *REPORT)
def compare(a: str, models: tuple[str, ...], **values: Any) -> int:
    """Compare the weights of two models, or of several with A, whatever they declare: one row for each."""
    from hf_lineage.checking import api

    delivery = Delivery.take(values)
    if models[1:]:
        delivery.refuse_several()
    return delivery.deliver(api.compare(a, models, make_options(**values)))
