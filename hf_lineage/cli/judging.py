"""The commands that judge: check and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hf_lineage.cli.completing import MODEL
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
)


NEAREST = click.option(
    "--index",
    "index",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Note which models of the index in DIR are nearer than the declared base; verdicts stay as they are.",
)


@click.command(epilog=CHECKING)
@click.argument("model", type=MODEL)
@with_options(BASES, NEAREST, ON_HUB, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *RECIPE, *TEST, *REPORT)
def check(model: str, bases: tuple[str, ...], index: Path | None, on_hub: bool, **settings: Any) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage.checking import api

    delivery = Delivery.of(settings)
    report = api.check(model, bases, make_options(**settings), on_hub=on_hub)
    if index is not None:
        from hf_lineage.index.catalogue import Catalogue
        from hf_lineage.index.nearer import noted

        report = noted(report, Catalogue(index))
    if delivery.explain:
        from hf_lineage.annotate import history

        report = history.with_changes(report)
    return delivery.deliver(report)


@click.command(epilog=COMPARING)
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@with_options(MERGE_BASE, SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, *RECIPE, *TEST, *REPORT)
def compare(a: str, b: str, merge_base: str, **settings: Any) -> int:
    """Compare the weights of two models, whatever they declare."""
    from hf_lineage.checking import api

    delivery = Delivery.of(settings)
    return delivery.deliver(api.compare(a, b, make_options(**settings), merge_base=merge_base))
