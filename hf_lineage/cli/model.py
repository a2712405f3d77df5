"""The commands about one model: extract, inspect, registry and annotate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.options import (
    BASES,
    MODEL,
    OF_MODELS,
    OF_SIGNATURES,
    OUTPUT,
    Result,
    format_option,
    make_options,
    settings,
    take,
    with_examples,
    with_options,
)
from hf_lineage.cli.output import POLICY, REPORTS, Reports, policy_of, ready, under, write_reports
from hf_lineage.errors import printable

if TYPE_CHECKING:
    from hf_lineage.annotate import Target


WITH_WEIGHTS = "MODEL is org/name, org/name@revision, or a folder as ./name."
CODES = "2 usage or input error, 130 interrupted."
EXTRACTING = with_examples(
    f"{WITH_WEIGHTS} Exit codes: 0 the signature was written, {CODES}",
    "hf-lineage extract org/model -o model.lineage.safetensors",
    "hf-lineage extract org/model --paths all",
)
INSPECTING = with_examples(
    f"{WITH_WEIGHTS} Exit codes: 0 the model was read, {CODES}",
    "hf-lineage inspect org/model",
    "hf-lineage inspect ./folder --format json -o model.json",
)
LISTING = with_examples(
    f"Exit codes: 0 the class is listed, {CODES}", "hf-lineage registry", "hf-lineage registry --format json"
)
FORM = format_option("text", "json")


@click.command(epilog=EXTRACTING)
@click.argument("model", type=MODEL)
@with_options(*settings(*OF_SIGNATURES), OUTPUT)
def extract(model: str, output: Path | None, **values: Any) -> int:
    """Write the signature of MODEL, by default into NAME.lineage.safetensors in the working directory."""
    from hf_lineage.checking import check
    from hf_lineage.signature.store import save_signature

    signature = check.extract(model, make_options(**values))
    output = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    save_signature(signature, output)
    click.echo(printable(output))
    return 0


@click.command(epilog=INSPECTING)
@click.argument("model", type=MODEL)
@with_options(*settings(*OF_MODELS), FORM, OUTPUT)
def inspect(model: str, **values: Any) -> int:
    """Show the trace concentration and pairing accuracy of one MODEL, and which tensors are read."""
    from hf_lineage.checking import check
    from hf_lineage.cli.single import INSPECTIONS

    result = take(Result, values)
    result.write(INSPECTIONS, check.inspect(model, make_options(**values)))
    return 0


@click.command(epilog=LISTING)
@click.argument("architecture", metavar="[CLASS]", required=False)
@with_options(FORM, OUTPUT)
def registry(architecture: str | None, **values: Any) -> int:
    """List the supported classes, or show how one CLASS is read."""
    from hf_lineage.cli.single import REGISTRIES

    take(Result, values).write(REGISTRIES, architecture)
    return 0


EPILOG = with_examples(
    "MODEL is org/name, org/name@branch, or a folder as ./name. A base is written as verified only if more than half "
    "is inherited from it; any other verdict is written with its reason. Exit codes: 0 the card was written or is up "
    "to date, whatever the verdicts; 2 usage or input error, nothing was written; 130 interrupted.",
    "hf-lineage annotate org/model",
    "hf-lineage annotate ./folder --write",
    "hf-lineage annotate org/model --pull-request",
    "hf-lineage annotate ./folder --base org/base --write",
)


@click.command(epilog=EPILOG)
@click.argument("model", type=MODEL)
@click.option("--write", is_flag=True, help="Write into the folder, or commit to the branch on the Hub.")
@click.option("--pull-request", is_flag=True, help="Open a pull request on the Hub, or update your open one.")
@with_options(BASES, *settings(), REPORTS, POLICY)
def annotate(
    model: str,
    write: bool,
    pull_request: bool,
    bases: tuple[str, ...],
    outputs: Reports,
    policy: str | None,
    **values: Any,
) -> int:
    """Write what `check` finds into the card of MODEL; without --write or --pull-request, show what would change."""
    if write and pull_request:
        raise click.UsageError("give --write or --pull-request, not both")
    target: Target = "write" if write else "pull-request" if pull_request else "preview"
    from hf_lineage.annotate import TARGETS
    from hf_lineage.annotate import annotate as annotate_model
    from hf_lineage.source.locate import located

    ready(*(form for form, _ in outputs))
    options = make_options(**values)
    governed = policy_of(policy, None, lambda: located(model, options))
    annotated = annotate_model(model, bases, options, target)
    write_reports(under(annotated.report, governed), outputs)
    done = TARGETS[target](annotated)
    click.echo(f"{annotated.verdicts}{done}")
    return 0
