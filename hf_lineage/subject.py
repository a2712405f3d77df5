"""Subject: one model of a comparison, opened as far as its headers; its weights are read when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hf_lineage.checkpoint import Checkpoint, open_checkpoint
from hf_lineage.errors import SignatureError
from hf_lineage.layout import Layout, bind
from hf_lineage.options import Options
from hf_lineage.registry import lookup
from hf_lineage.repo import RepoRef, is_file, resolve
from hf_lineage.signature import Signature
from hf_lineage.store import load_signature


@dataclass(frozen=True)
class Subject:
    """One model of a comparison, its headers read and checked; `signature` reads the weights, once."""

    name: str
    revision: str | None
    folder: Path | None
    local: bool
    width: int
    layers: int
    signature: Callable[[], Signature]


def locate(model: str, local_hub: Path | None = None) -> RepoRef | Signature:
    """Return the repository that a name or folder means, or the signature stored in a file; LineageError if neither."""
    return load_signature(Path(model)) if is_file(model) else resolve(model, local_hub)


def open_subject(source: RepoRef | Signature, options: Options) -> Subject:
    """Open a model as far as its headers.

    Raise NothingToCompare where there is nothing to judge, another LineageError where something is wrong.
    """
    if isinstance(source, Signature):
        stored = functools.partial(_fitting, source, options)
        return Subject(source.model, source.revision, None, True, source.width, source.layers, stored)
    architecture, checkpoint, layout = open_model(source)
    extracted = functools.cache(lambda: _extracted(source, architecture, checkpoint, layout, options))
    return Subject(
        source.name, source.revision, source.folder, source.remote is None, layout.width, layout.layers, extracted
    )


def open_model(repo: RepoRef) -> tuple[str, Checkpoint, Layout]:
    """Return the class that config.json names, the checkpoint, and where everything is in it."""
    config = repo.config()
    architecture, factorization = lookup(config)
    checkpoint = open_checkpoint(repo)
    return architecture, checkpoint, bind(factorization, checkpoint.shapes, config)


def _extracted(repo: RepoRef, architecture: str, checkpoint: Checkpoint, layout: Layout, options: Options) -> Signature:
    from hf_lineage.extraction import extract_paths

    return Signature(
        model=repo.name,
        revision=repo.revision,
        architecture=architecture,
        factorization=layout.factorization.name,
        exchangeable=True,
        width=layout.width,
        layers=layout.layers,
        recipe=options.recipe,
        paths=extract_paths(checkpoint, layout, options.recipe, options.paths, options.max_memory),
    )


def _fitting(stored: Signature, options: Options) -> Signature:
    """A stored signature, if it was made as the options ask."""
    missing = [path for path in options.paths if path not in stored.paths]
    if missing or stored.recipe != options.recipe:
        what = f"path {missing[0]}" if missing else f"recipe {stored.recipe.name} with other parameters"
        raise SignatureError(
            f"{stored.model}: the stored signature does not hold what is asked for ({what}); extract it again"
        )
    return stored
