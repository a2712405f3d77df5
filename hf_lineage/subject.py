"""Subject: one model of a comparison, opened as far as its headers; its weights are read when they are asked for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.checkpoint import FLOATS, Checkpoint, RemoteCheckpoint, open_checkpoint, other_format
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError, SignatureError
from hf_lineage.layout import Layout, bind
from hf_lineage.options import Options
from hf_lineage.registry import lookup
from hf_lineage.repo import RepoRef, is_file, resolve
from hf_lineage.signature import Signature, joined
from hf_lineage.store import load_signature


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
    rows: Mapping[str, Mapping[int, int]]
    """By path the numbers of the layers that have it, each with the width of its stream."""
    signature: Callable[..., Signature]
    """Of some layers, or of all; what was read before is not read again, and comes with it."""
    traffic: Callable[[], Traffic | None] = lambda: None
    """What came over the network so far; None of a model on this machine."""


@dataclass(frozen=True)
class Traffic:
    """What of a model came over the network."""

    requests: int
    moved: int
    """Bytes."""
    stored: int
    """Bytes of all its tensors."""


class _Reading:
    """The signature of the layers of one model that were read so far."""

    def __init__(self, layout: Layout, extracted: Callable[[Layout], Signature]) -> None:
        self._layout, self._extracted = layout, extracted
        self._read: frozenset[int] = frozenset()
        self._found: Signature | None = None

    def __call__(self, layers: Collection[int] | None = None) -> Signature:
        wanted = frozenset(range(self._layout.layers) if layers is None else layers)
        new = self._layout.only(wanted - self._read)
        self._read |= wanted
        if self._found is None:
            self._found = self._extracted(new)
        elif new.paths:
            self._found = joined(self._found, self._extracted(new))
        return self._found


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
        rows = {path: dict(zip(source.numbers(path), _widths(source, path), strict=True)) for path in source.paths}
        stored = functools.partial(_fitting, source, options)
        return Subject(source.model, source.revision, None, True, source.width, source.layers, rows, stored)
    architecture, checkpoint, layout = open_model(source)
    return Subject(
        name=source.name,
        revision=source.revision,
        identity=source.identity,
        local=source.remote is None,
        width=layout.width,
        layers=layout.layers,
        rows={path: {number: layout.widths[number] for number in layout.numbers(path)} for path in layout.paths},
        signature=_Reading(layout, functools.partial(_extracted, source, architecture, checkpoint, options)),
        traffic=functools.partial(_traffic, checkpoint),
    )


def _widths(stored: Signature, path: str) -> tuple[int, ...]:
    return stored.paths[path].widths or (stored.width,) * len(stored.numbers(path))


def _traffic(checkpoint: Checkpoint) -> Traffic | None:
    if not isinstance(checkpoint, RemoteCheckpoint):
        return None
    stored = sum(info.size for info in checkpoint.tensors.values())
    return Traffic(checkpoint.requests, checkpoint.bytes_read, stored)


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


def _extracted(repo: RepoRef, architecture: str, checkpoint: Checkpoint, options: Options, layout: Layout) -> Signature:
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


def _fitting(stored: Signature, options: Options, _layers: Collection[int] | None = None) -> Signature:
    """A stored signature, if it was made as the options ask; all of it, since nothing has to be read."""
    missing = [path for path in options.paths if path not in stored.paths]
    if missing or stored.recipe != options.recipe:
        what = f"path {missing[0]}" if missing else f"recipe {stored.recipe.name} with other parameters"
        raise SignatureError(
            f"{stored.model}: the stored signature does not hold what is asked for ({what}); extract it again"
        )
    return stored
