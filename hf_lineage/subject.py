"""Subject: one model of a comparison, opened as far as its headers; its weights are read when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from hf_lineage import cache, published
from hf_lineage.checkpoint import Checkpoint, RemoteCheckpoint, adapter_beside
from hf_lineage.errors import SignatureError
from hf_lineage.layout import Layout
from hf_lineage.opened import Opened, about, known_class, opened, with_adapter
from hf_lineage.options import Options
from hf_lineage.origin import CACHE, FILE, WEIGHTS, Origin
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
    notes: tuple[str, ...] = ()
    """Sentences about what lies beside the weights and was not read."""
    variants: Mapping[str, Subject | str] = field(default_factory=dict)
    """How else transformers may load it, in words; a text says why that cannot be judged."""


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
    if kept and not adapter_beside(source):
        # Row for row what the weights would give: nothing in a report changes because of it.
        return _of_signature(kept, source, CACHE, functools.partial(some_layers, kept))
    model = opened(source)
    subject = _of_weights(source, model, options)
    if not is_base:
        return replace(subject, variants=_variants(source, model, options))
    if options.recompute or not isinstance(model.checkpoint, RemoteCheckpoint):
        return subject
    found = published.find(Model(source, model.architecture, model.layout, options), options)
    return replace(subject, signature=functools.partial(some_layers, found[0]), origin=found[1]) if found else subject


def _variants(repo: RepoRef, model: Opened, options: Options) -> dict[str, Subject | str]:
    """How else transformers may load a model; nothing of it is kept, for a signature is of the weights alone."""
    return {
        variant.how: variant.found
        if isinstance(variant.found, str)
        else _of_weights(repo, variant.found, options, lambda _: None)
        for variant in with_adapter(repo, model)
    }


def _of_weights(
    repo: RepoRef, model: Opened, options: Options, keep: Callable[[Signature], None] | None = None
) -> Subject:
    layout = model.layout
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
            functools.partial(_extracted, repo, model, options),
            keep or functools.partial(cache.keep, repo, layout.factorization, options),
        ),
        traffic=functools.partial(_traffic, model.checkpoint),
        notes=model.notes,
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
        notes=found.notes,
    )


def _widths(stored: Signature, path: str) -> tuple[int, ...]:
    return stored.paths[path].widths or (stored.width,) * len(stored.numbers(path))


def _traffic(checkpoint: Checkpoint) -> Traffic | None:
    if not isinstance(checkpoint, RemoteCheckpoint):
        return None
    stored = sum(info.size for info in checkpoint.tensors.values())
    return Traffic(checkpoint.requests, checkpoint.bytes_read, stored)


def _extracted(repo: RepoRef, model: Opened, options: Options, layout: Layout) -> Signature:
    from hf_lineage.extraction import extract_paths

    with about(repo):
        paths = extract_paths(model.checkpoint, layout, options.recipe, options.paths, options.max_memory)
    return Signature(
        model=repo.name,
        revision=repo.revision,
        architecture=model.architecture,
        factorization=layout.factorization.name,
        exchangeable=layout.factorization.exchangeable,
        width=layout.width,
        layers=layout.layers,
        recipe=options.recipe,
        paths=paths,
        without={path: layout.without(path) for path in paths if layout.without(path)},
        notes=model.notes,
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
