"""The commands that look at one model: extract, inspect and registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hf_lineage.cli.shared import EPILOG, LOCAL_HUB, OUTPUT, RECIPE, UNDECIDED, make_options, with_options, write
from hf_lineage.errors import printable


@click.command(epilog=EPILOG)
@click.argument("model")
@with_options(*RECIPE, OUTPUT)
def extract(model: str, output: Path | None, **settings: Any) -> int:
    """Write the signature of MODEL, by default beside you as NAME.lineage.safetensors."""
    from hf_lineage import pipeline, store

    signature = pipeline.extract(model, make_options(**settings))
    file = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    store.save_signature(signature, file)
    click.echo(printable(file))
    return 0


@click.command(epilog=EPILOG)
@click.argument("model")
@with_options(LOCAL_HUB, click.option("--format", "form", type=click.Choice(["text", "json"]), default="text"), OUTPUT)
def inspect(model: str, local_hub: Path | None, form: str, output: Path | None) -> int:
    """Look at one MODEL: trace concentration, pairing accuracy, what is read."""
    from hf_lineage import pipeline
    from hf_lineage.options import Options
    from hf_lineage.report import single

    write(single.INSPECTIONS[form](pipeline.inspect(model, Options(local_hub=local_hub))), output)
    return 0


@click.command()
@click.argument("architecture", metavar="[CLASS]", required=False)
@click.option(
    "--check",
    "model",
    metavar="MODEL",
    help="Say which factorizations the names and shapes of MODEL fit, and draft a new one; exit code 3 if none fits.",
)
@click.option("--coverage", is_flag=True, help="Count the classes of the installed transformers that are supported.")
@with_options(LOCAL_HUB, click.option("--format", "form", type=click.Choice(["text", "json"]), default="text"), OUTPUT)
def registry(
    architecture: str | None, model: str | None, coverage: bool, local_hub: Path | None, form: str, output: Path | None
) -> int:
    """List the supported classes, or say how one CLASS is read."""
    if (architecture is not None) + (model is not None) + coverage > 1:
        raise click.UsageError("give one of a CLASS, --check MODEL and --coverage")
    if model is not None:
        return _suggest(model, local_hub, form, output)
    if coverage:
        from hf_lineage.coverage import coverage as measured
        from hf_lineage.report.coverage import COVERAGES

        write(COVERAGES[form](measured()), output)
    else:
        from hf_lineage.report import single

        write(single.REGISTRIES[form](architecture), output)
    return 0


def _suggest(model: str, local_hub: Path | None, form: str, output: Path | None) -> int:
    from hf_lineage import pipeline
    from hf_lineage.options import Options
    from hf_lineage.report.suggestion import SUGGESTIONS

    found = pipeline.suggest(model, Options(local_hub=local_hub))
    write(SUGGESTIONS[form](found), output)
    return 0 if found.fits else UNDECIDED
