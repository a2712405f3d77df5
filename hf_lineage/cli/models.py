"""The commands about one model: extract, inspect and registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hf_lineage.cli.kinds import MODEL, Result, format_option, take
from hf_lineage.cli.shared import OF_MODELS, OF_SIGNATURES, OUTPUT, make_options, settings, with_examples, with_options
from hf_lineage.errors import printable

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
    from hf_lineage.checking import api
    from hf_lineage.signature.sources import store

    signature = api.extract(model, make_options(**values))
    output = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    store.save_signature(signature, output)
    click.echo(printable(output))
    return 0


@click.command(epilog=INSPECTING)
@click.argument("model", type=MODEL)
@with_options(*settings(*OF_MODELS), FORM, OUTPUT)
def inspect(model: str, **values: Any) -> int:
    """Show the trace concentration and pairing accuracy of one MODEL, and which tensors are read."""
    from hf_lineage.checking import api
    from hf_lineage.report.single import single

    result = take(Result, values)
    result.write(single.INSPECTIONS, api.inspect(model, make_options(**values)))
    return 0


@click.command(epilog=LISTING)
@click.argument("architecture", metavar="[CLASS]", required=False)
@with_options(FORM, OUTPUT)
def registry(architecture: str | None, **values: Any) -> int:
    """List the supported classes, or show how one CLASS is read."""
    from hf_lineage.report.single import single

    take(Result, values).write(single.REGISTRIES, architecture)
    return 0
