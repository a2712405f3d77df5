"""Subject: one model of a comparison, opened as far as its headers; its weights are read when they are asked for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage import cache, published
from hf_lineage.checkpoint import FLOATS, Checkpoint, RemoteCheckpoint, open_checkpoint, other_format
from hf_lineage.errors import CheckpointError, NothingToCompare, SignatureError
from hf_lineage.layout import Layout, bind
from hf_lineage.options import Options
from hf_lineage.origin import CACHE, FILE, WEIGHTS, Origin
from hf_lineage.registry import Factorization, lookup
from hf_lineage.repo import RepoRef
from hf_lineage.signature import Signature, joined, some_layers
from hf_lineage.vetting import Model


@dataclass(frozen=True)
class Subject:
    """One model of a comparison, its headers read and checked; `signature` reads the weights, once."""

    name: str
    revision: str | None
    identity: tuple[str, ...] | None
    """What all names of one model have in common; None for a signature that the user named."""
    local: bool
    width: int
    layers: int
    rows: Mapping[str, Mapping[int, int]]
    """By path the numbers of the layers that have it, each with the width of its stream."""
    signature: Callable[..., Signature]
    """Of the layers that are asked for and no others, whatever is known besides; of all layers if none are named.

    What was read before is not read again.
    """
    origin: Origin = WEIGHTS
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
    """The signature of any layers of one model, read when they are first asked for; once all are there, it is kept."""

    def __init__(self, layout: Layout, extracted: Callable[[Layout], Signature], keep: Callable[[Signature], None]):
        self._layout, self._extracted, self._keep = layout, extracted, keep
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
        if new.paths and len(self._read) == self._layout.layers:
            self._keep(self._found)
        return some_layers(self._found, wanted)


def open_subject(source: RepoRef | Signature, options: Options, is_base: bool = False) -> Subject:
    """Open a model as far as its headers. Of a base a published signature may stand for the weights, of no other model.

    Raise NothingToCompare where there is nothing to judge, another LineageError where something is wrong.
    """
    if isinstance(source, Signature):
        return _of_signature(source, None, FILE, functools.partial(_fitting, source, options))
    kept = None if options.recompute else cache.find(source, *known_class(source), options)
    if kept:
        # Row for row what the weights would give: nothing in a report changes because of it.
        return _of_signature(kept, source, CACHE, functools.partial(some_layers, kept))
    architecture, checkpoint, layout = open_model(source)
    subject = _of_weights(source, architecture, checkpoint, layout, options)
    if not is_base or options.recompute or not isinstance(checkpoint, RemoteCheckpoint):
        return subject
    found = published.find(Model(source, architecture, layout, options), options)
    return replace(subject, signature=functools.partial(some_layers, found[0]), origin=found[1]) if found else subject


def _of_weights(repo: RepoRef, architecture: str, checkpoint: Checkpoint, layout: Layout, options: Options) -> Subject:
    return Subject(
        name=repo.name,
        revision=repo.revision,
        identity=repo.identity,
        local=repo.remote is None,
        width=layout.width,
        layers=layout.layers,
        rows={path: {number: layout.widths[number] for number in layout.numbers(path)} for path in layout.paths},
        signature=_Reading(
            layout,
            functools.partial(_extracted, repo, architecture, checkpoint, options),
            functools.partial(cache.keep, repo, layout.factorization, options),
        ),
        traffic=functools.partial(_traffic, checkpoint),
    )


def _of_signature(
    found: Signature, repo: RepoRef | None, origin: Origin, signature: Callable[..., Signature]
) -> Subject:
    return Subject(
        name=found.model,
        revision=found.revision,
        identity=repo.identity if repo else None,
        local=repo is None,
        width=found.width,
        layers=found.layers,
        rows={path: dict(zip(found.numbers(path), _widths(found, path), strict=True)) for path in found.paths},
        signature=signature,
        origin=origin,
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
    (architecture, factorization), config = known_class(repo), model_config(repo)
    checkpoint = open_checkpoint(repo)
    with _about(repo):
        _refuse_quantized(checkpoint, config)
        return architecture, checkpoint, bind(factorization, checkpoint.shapes, config)


def known_class(repo: RepoRef) -> tuple[str, Factorization]:
    """Return the class that config.json names and its factorization; NothingToCompare if there is none."""
    config = model_config(repo)
    with _about(repo):
        return lookup(config)


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


def _fitting(stored: Signature, options: Options, layers: Collection[int] | None = None) -> Signature:
    """Some layers of a stored signature, or all, if it was made as the options ask."""
    missing = [path for path in options.paths if path not in stored.paths]
    if missing or stored.recipe != options.recipe:
        what = f"path {missing[0]}" if missing else f"recipe {stored.recipe.name} with other parameters"
        raise SignatureError(
            f"{stored.model}: the stored signature does not hold what is asked for ({what}); extract it again"
        )
    return some_layers(stored, layers)
