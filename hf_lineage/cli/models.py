"""The commands about one model: extract, inspect and registry."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hf_lineage.cli.completing import MODEL
from hf_lineage.cli.kinds import Result, format_option, remark, take
from hf_lineage.cli.shared import (
    ALLOW_PICKLE,
    CLASSES,
    CONVERTED_FILE,
    LOCAL_HUB,
    OUTPUT,
    PATHS_OF_LAYERS,
    SET,
    SUBFOLDER,
    UNDECIDED,
    make_options,
    with_examples,
    with_options,
)
from hf_lineage.errors import printable

WITH_WEIGHTS = "MODEL is org/name, org/name@revision, a folder as ./name, or ollama://name:tag."
CODES = "2 usage or input error, 130 interrupted."
EXTRACTING = with_examples(
    f"{WITH_WEIGHTS} Exit codes: 0 the signature was written or published, {CODES}",
    "hf-lineage extract org/model -o model.lineage.safetensors",
    "hf-lineage extract org/model --paths all --push",
)
INSPECTING = with_examples(
    f"{WITH_WEIGHTS} Exit codes: 0 the model was read, {CODES}",
    "hf-lineage inspect org/model",
    "hf-lineage inspect ./folder --format json -o model.json",
)
LISTING = with_examples(
    f"Exit codes: 0 the class is listed, or a factorization fits or is proved, 3 neither, {CODES}",
    "hf-lineage registry",
    "hf-lineage registry --coverage --format json",
    "hf-lineage registry --check org/model --write drafts",
    "hf-lineage registry --prove drafts org/model",
)
FORM = format_option("text", "json")


@click.command(epilog=EXTRACTING)
@click.argument("model", type=MODEL)
@click.option("--push", is_flag=True, help="Open a pull request with it on the Hub instead, or update your open one.")
@click.option(
    "--to", metavar="REPO", help="With --push: publish it in this repository of signatures instead of the model's own."
)
@with_options(SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, PATHS_OF_LAYERS, LOCAL_HUB, SET, OUTPUT)
def extract(model: str, push: bool, to: str | None, output: Path | None, **settings: Any) -> int:
    """Write the signature of MODEL, by default into NAME.lineage.safetensors in the working directory."""
    from hf_lineage.checking import api
    from hf_lineage.signature.sources import store

    if to and not push:
        raise click.UsageError("--to names the repository for --push; give both")
    if not push:
        signature = api.extract(model, make_options(**settings))
        output = output or Path(f"{Path(model.partition('@')[0]).resolve().name}.lineage.safetensors")
    else:
        signature, published = api.publish(model, make_options(**settings), to)
        click.echo(published.done)
        for file, sha256 in published.files.items():
            click.echo(f"{sha256}  {printable(file)}")
    if output is not None:
        store.save_signature(signature, output)
        click.echo(printable(output))
    return 0


@click.command(epilog=INSPECTING)
@click.argument("model", type=MODEL)
@with_options(SUBFOLDER, CONVERTED_FILE, ALLOW_PICKLE, *CLASSES, LOCAL_HUB, FORM, OUTPUT)
def inspect(model: str, **settings: Any) -> int:
    """Show the trace concentration and pairing accuracy of one MODEL, and which tensors are read."""
    from hf_lineage.checking import Options, api
    from hf_lineage.report.single import single

    result = take(Result, settings)
    result.write(single.INSPECTIONS, api.inspect(model, Options(**settings)))
    return 0


@dataclass(frozen=True)
class Asked:
    """What is asked about the registry besides a class."""

    model: str | None
    folder: Path | None
    drafts: Path | None
    coverage: bool

    def refuse(self, architecture: str | None) -> None:
        """Raise UsageError for questions that cannot be answered together."""
        if self.drafts is not None and (architecture is None or self.model is not None or self.coverage):
            raise click.UsageError("--prove DIR needs a MODEL after it; leave --check and --coverage out")
        if (architecture is not None) + (self.model is not None) + self.coverage > 1:
            raise click.UsageError("give only one of CLASS, --check MODEL and --coverage")
        if self.folder is not None and self.model is None and self.drafts is None:
            raise click.UsageError("--write is for the draft of --check MODEL; give both")


@click.command(epilog=LISTING)
@click.argument("architecture", metavar="[CLASS]", required=False)
@click.option(
    "--check",
    "model",
    metavar="MODEL",
    help="Show which factorizations fit the names and shapes of the tensors of MODEL, and draft a new one.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="With --check: write the draft into DIR, for `--registry DIR` of the other commands; nothing is overwritten.",
)
@click.option(
    "--prove",
    "drafts",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Prove that the factorization in DIR is right for the class of MODEL (in place of CLASS), on the module of "
    "transformers; needs the extra `run`.",
)
@click.option("--coverage", is_flag=True, help="Count how many classes of the installed transformers are supported.")
@with_options(LOCAL_HUB, FORM, OUTPUT)
def registry(architecture: str | None, local_hub: Path | None, **settings: Any) -> int:
    """List the supported classes, or show how one CLASS is read."""
    result, asked = take(Result, settings), take(Asked, settings)
    asked.refuse(architecture)
    if asked.drafts is not None and architecture is not None:
        return _prove(asked.drafts, architecture, local_hub, result)
    if asked.model is not None:
        return _suggest(asked.model, asked.folder, local_hub, result)
    if asked.coverage:
        from hf_lineage.architecture.drafting import coverage
        from hf_lineage.report.single import COVERAGES

        result.write(COVERAGES, coverage())
    else:
        from hf_lineage.report.single import single

        result.write(single.REGISTRIES, architecture)
    return 0


def _prove(drafts: Path, model: str, local_hub: Path | None, result: Result) -> int:
    from hf_lineage.checking import Options
    from hf_lineage.checking.single import user_registry as own
    from hf_lineage.report.single import PROOFS

    proof = own.prove(drafts, model, Options(local_hub=local_hub))
    result.write(PROOFS, proof)
    return 0 if proof.holds else UNDECIDED


def _suggest(model: str, folder: Path | None, local_hub: Path | None, result: Result) -> int:
    from hf_lineage.checking import Options
    from hf_lineage.checking.single import user_registry as own
    from hf_lineage.report.single import SUGGESTIONS

    suggestion = own.suggest(model, Options(local_hub=local_hub))
    file = own.write_draft(suggestion, folder) if folder else None
    result.write(SUGGESTIONS, suggestion)
    if folder and file:
        there = shlex.quote(str(folder))
        proving = ["--prove", str(folder), model, *(["--local-hub", str(local_hub)] if local_hub else [])]
        note = (
            f"Wrote {printable(file)}, which is not proved yet; --registry {there} reads models with it. First decide "
            "the lines with a ?: until it says `exchangeable: true`, a check uses only the order of hidden units. If "
            f"transformers has the class, `hf-lineage registry {shlex.join(proving)}` proves it."
        )
        remark([note])
    return 0 if suggestion.fits else UNDECIDED
