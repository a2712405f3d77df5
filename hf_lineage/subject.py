"""Subject: one model of a comparison, opened as far as its headers; its weights are read when they are asked for."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hf_lineage.checkpoint import FLOATS, Checkpoint, open_checkpoint, other_format
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError, SignatureError
from hf_lineage.layout import Layout, bind
from hf_lineage.options import Options
from hf_lineage.registry import lookup
from hf_lineage.repo import RepoRef, is_file, resolve
from hf_lineage.signature import Signature
from hf_lineage.store import load_signature, save_signature


@dataclass(frozen=True)
class Subject:
    """One model of a comparison, its headers read and checked; `signature` reads the weights, once."""

    name: str
    revision: str | None
    identity: tuple[str, ...] | None
    """What all names of one model have in common; None for a signature."""
    local: bool
    width: int
    layers: int
    signature: Callable[[], Signature]


def locate(model: str, local_hub: Path | None = None) -> RepoRef | Signature:
    """Return the repository that a name or folder means, or the signature stored in a file; LineageError if neither."""
    return load_signature(Path(model)) if is_file(model) else resolve(model, local_hub)


def locate_weights(model: str, local_hub: Path | None = None) -> RepoRef:
    """Return the repository that a name or folder means; OptionError for a signature, LineageError if there is none."""
    source = locate(model, local_hub)
    if isinstance(source, Signature):
        raise OptionError(f"{model} is a signature, which holds no weights to inspect; give the model")
    return source


def open_subject(source: RepoRef | Signature, options: Options) -> Subject:
    """Open a model as far as its headers.

    Raise NothingToCompare where there is nothing to judge, another LineageError where something is wrong.
    """
    if isinstance(source, Signature):
        stored = functools.partial(_fitting, source, options)
        return Subject(source.model, source.revision, None, True, source.width, source.layers, stored)
    architecture, checkpoint, layout = open_model(source)
    extracted = functools.cache(
        lambda: _kept(source, options, lambda: _extracted(source, architecture, checkpoint, layout, options))
    )
    local = source.remote is None
    return Subject(source.name, source.revision, source.identity, local, layout.width, layout.layers, extracted)


def open_model(repo: RepoRef) -> tuple[str, Checkpoint, Layout]:
    """Return the class that config.json names, the checkpoint, and where everything is in it."""
    config = model_config(repo)
    with _about(repo):
        architecture, factorization = lookup(config)
    checkpoint = open_checkpoint(repo)
    with _about(repo):
        _refuse_quantized(checkpoint, config)
        return architecture, checkpoint, bind(factorization, checkpoint.shapes, config)


def open_header(repo: RepoRef) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """Return the shape of every tensor and `config.json`, whatever class it names."""
    config, checkpoint = model_config(repo), open_checkpoint(repo)
    with _about(repo):
        _refuse_quantized(checkpoint, config)
    return checkpoint.shapes, config


def model_config(repo: RepoRef) -> dict[str, Any]:
    """Return `config.json`; raise NothingToCompare for a LoRA adapter or a format that is complete without one."""
    instead = None if repo.has("config.json") else other_format(repo)
    if instead:
        raise NothingToCompare(instead)
    return repo.config()


@contextlib.contextmanager
def _about(repo: RepoRef) -> Iterator[None]:
    """Name the model in errors of what knows only its values."""
    try:
        yield
    except (CheckpointError, NothingToCompare) as error:
        named = str(error).startswith(f"{repo}: ")
        raise type(error)(str(error) if named else f"{repo}: {error}") from None


def _refuse_quantized(checkpoint: Checkpoint, config: Mapping[str, Any]) -> None:
    """Packed weights have other names and shapes: what is wrong is their format, not the file."""
    packed = sorted({info.dtype for info in checkpoint.tensors.values()} - FLOATS)
    if packed and config.get("quantization_config"):
        raise NothingToCompare(
            f"the weights are quantized ({', '.join(packed)}), which is not decoded yet; "
            "check the release in F16, BF16 or F32 instead"
        )


def _kept(repo: RepoRef, options: Options, extract: Callable[[], Signature]) -> Signature:
    """The signature that was kept for this commit, else a new one, which is kept if it can be."""
    if options.signatures is None or repo.remote is None or repo.revision is None:
        return extract()
    said = (repo.renamed or repo.remote, repo.revision, options.recipe, options.paths)
    file = options.signatures / f"{hashlib.sha256(repr(said).encode()).hexdigest()}.safetensors"
    if is_file(str(file)):
        with contextlib.suppress(SignatureError):
            return replace(_fitting(load_signature(file), options), model=repo.name)
    found = extract()
    with contextlib.suppress(SignatureError, OSError):
        options.signatures.mkdir(parents=True, exist_ok=True)
        save_signature(found, file)
    return found


def _extracted(repo: RepoRef, architecture: str, checkpoint: Checkpoint, layout: Layout, options: Options) -> Signature:
    from hf_lineage.extraction import extract_paths

    with _about(repo):
        paths = extract_paths(checkpoint, layout, options.recipe, options.paths, options.max_memory)
    return Signature(
        model=repo.name,
        revision=repo.revision,
        architecture=architecture,
        factorization=layout.factorization.name,
        exchangeable=layout.factorization.exchangeable,
        width=layout.width,
        layers=layout.layers,
        recipe=options.recipe,
        paths=paths,
        without={path: layout.without(path) for path in paths if layout.without(path)},
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
