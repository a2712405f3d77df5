"""The commands that judge: check and compare."""

from __future__ import annotations

from typing import Any

import click

from hf_lineage.cli.delivery import REPORT, Delivery
from hf_lineage.cli.shared import (
    ALLOW_PICKLE,
    BASES,
    CLASSES,
    CONVERTED_FILE,
    EPILOG,
    MERGE_BASE,
    ON_HUB,
    RECIPE,
    SUBFOLDER,
    TEST,
    make_options,
    with_examples,
    with_options,
)

CHECKING = with_examples(
    EPILOG, "hf-lineage check org/model", "hf-lineage check ./folder --base org/base --format json"
)
COMPARING = with_examples(EPILOG, "hf-lineage compare org/base org/model --explain")


@click.command(epilog=CHECKING)
@click.argument("model")
@with_options(BASES, ON_HUB, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *RECIPE, *TEST, *REPORT)
def check(model: str, bases: tuple[str, ...], on_hub: bool, **settings: Any) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage.checking import api

    delivery = Delivery.of(settings)
    return delivery.deliver(api.check(model, bases, make_options(**settings), on_hub=on_hub))


@click.command(epilog=COMPARING)
@click.argument("a")
@click.argument("b")
@with_options(MERGE_BASE, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *RECIPE, *TEST, *REPORT)
def compare(a: str, b: str, merge_base: str, **settings: Any) -> int:
    """Compare the weights of two models, whatever they declare."""
    from hf_lineage.checking import api

    delivery = Delivery.of(settings)
    return delivery.deliver(api.compare(a, b, make_options(**settings), merge_base=merge_base))
