"""The command that lists the models on this disk: scan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.indexing import progress, tell
from hf_lineage.cli.kinds import Result, format_option, take
from hf_lineage.cli.shared import ALLOW_PICKLE, OUTPUT, TEST, make_options, with_examples, with_options

if TYPE_CHECKING:
    from hf_lineage.scan import Digest, LocalModel

EPILOG = with_examples(
    "PLACE is a folder; by default the cache of the Hub, the store of Ollama (OLLAMA_MODELS), and the folders of LM "
    "Studio and llama.cpp are listed. A base is read from the cache of the Hub where it is there, else from the Hub. "
    "Exit codes: 0 all that was checked is RELATED, or nothing was to be checked; 1 a claim UNRELATED; 2 usage or "
    "input error, or something could not be read; 3 undecided; 130 interrupted.",
    "hf-lineage scan",
    "hf-lineage scan ./models --digest",
    "hf-lineage scan --check --format json",
)


@click.command(epilog=EPILOG)
@click.argument("places", nargs=-1, type=click.Path(path_type=Path), metavar="[PLACE]...")
@click.option("--check", is_flag=True, help="Judge each model that declares a base.")
@click.option(
    "--digest", is_flag=True, help="Read all tensors, and show which models hold the same bytes in every one of them."
)
@with_options(ALLOW_PICKLE, *TEST, format_option("text", "json"), OUTPUT)
def scan(places: tuple[Path, ...], check: bool, digest: bool, **settings: Any) -> int:
    """List the models on this disk, what each declares as its base, and which of them are the same."""
    from hf_lineage.scan import find_models, judge, permit, rendering, scanned

    result = take(Result, settings)
    options = make_options(**settings)
    notes: list[str] = []
    models = [permit(model, options) for model in find_models(places, notes.append)]
    digests = _digests(models) if digest else None
    judged = [judge(model, options) for model in progress("Checking")(models)] if check else None
    done = scanned(models, digests, judged, notes)
    result.write(rendering.FORMATS, done, coloured=True)
    tell(notes)
    return int(done.exit_code)


def _digests(models: Sequence[LocalModel]) -> list[Digest]:
    """The digests of all models; on a terminal a bar shows how much is read."""
    from hf_lineage.hub import client
    from hf_lineage.scan import digest as digest_of

    size = sum(model.size for model in models)
    with client.progress()(total=size, desc="Reading", unit="B", unit_scale=True, leave=False) as bar:
        return [digest_of(model, bar.update) for model in models]
