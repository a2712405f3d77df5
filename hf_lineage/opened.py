"""Opened: the headers of a model, read as transformers would load it: its class, its tensors, where everything is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.checkpoint import (
    FLOATS,
    Checkpoint,
    adapted,
    adapter_base,
    adapter_beside,
    files_beside,
    open_checkpoint,
    other_format,
)
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, printable
from hf_lineage.fit import turned
from hf_lineage.layout import Layout, bind
from hf_lineage.loading import as_loaded, refuse_hidden
from hf_lineage.registry import lookup
from hf_lineage.repo import RepoRef, resolve
from hf_lineage.schema import Factorization
from hf_lineage.settings import as_said


@dataclass(frozen=True)
class Opened:
    """A model as far as its headers."""

    architecture: str
    """The class that `config.json` names."""
    checkpoint: Checkpoint
    layout: Layout
    notes: tuple[str, ...] = ()
    """Sentences about what lies beside and was not read."""


def opened(repo: RepoRef) -> Opened:
    """Return a model's headers, read as transformers loads it.

    Raise NothingToCompare where it may be loaded in more than one way, CheckpointError where it is damaged.
    """
    (architecture, factorization), config = known_class(repo), model_config(repo)
    with about(repo):
        settings = as_said(config, architecture, factorization)
    model = _bound(repo)
    with about(repo):
        hidden = refuse_hidden(model.layout, model.checkpoint.shapes, config)
    return replace(model, notes=(*settings, *model.notes, *hidden, *files_beside(repo)))


def _bound(repo: RepoRef) -> Opened:
    """A model's headers, whatever else lies beside its layers."""
    (architecture, factorization), config = known_class(repo), model_config(repo)
    checkpoint = open_checkpoint(repo)
    with about(repo):
        _refuse_quantized(checkpoint, config)
        reading = as_loaded(factorization, checkpoint.shapes, config)
        layout = bind(factorization, reading.shapes, config)
    return Opened(architecture, checkpoint, layout, reading.notes)


def open_model(repo: RepoRef) -> tuple[str, Checkpoint, Layout]:
    """Return the class that config.json names, the checkpoint, and where everything is in it."""
    found = _bound(repo)
    return found.architecture, found.checkpoint, found.layout


def known_class(repo: RepoRef) -> tuple[str, Factorization]:
    """Return the class that config.json names and its factorization; NothingToCompare if there is none."""
    config = model_config(repo)
    with about(repo):
        return lookup(config)


def open_header(repo: RepoRef) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """Return the shape of every tensor and `config.json`, whatever class it names."""
    config, checkpoint = model_config(repo), open_checkpoint(repo)
    with about(repo):
        _refuse_quantized(checkpoint, config)
    return checkpoint.shapes, config


def model_config(repo: RepoRef) -> dict[str, Any]:
    """Return `config.json`; raise NothingToCompare for a LoRA adapter or a format that is complete without one."""
    instead = None if repo.has("config.json") else other_format(repo)
    if instead:
        raise NothingToCompare(instead)
    return repo.config()


@contextlib.contextmanager
def about(repo: RepoRef) -> Iterator[None]:
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


@dataclass(frozen=True)
class Variant:
    """Another way in which transformers may load a repository, with peft installed."""

    how: str
    """In words, as they go on after "loaded"."""
    found: Opened | str
    """A text says why it cannot be judged."""


def with_adapter(repo: RepoRef, plain: Opened) -> tuple[Variant, ...]:
    """Return how a model loads where peft is installed and an adapter lies beside its weights; nothing without one.

    From a folder the adapter comes on top of the weights, by its name on the Hub on top of the model that it names.
    """
    if not adapter_beside(repo):
        return ()
    on_top = Variant("with the adapter on top of the weights", _adapted(repo, plain))
    if repo.remote is None:
        return (on_top,)
    named = adapter_base(repo)
    how = f"with the adapter on top of {printable(str(named), 200)}, as by its name on the Hub"
    return on_top, Variant(how, _elsewhere(repo, named))


def _elsewhere(repo: RepoRef, named: Any) -> Opened | str:
    try:
        return _adapted(repo, opened(resolve(str(named), folders=False)))
    except LineageError as error:
        return str(error)


def _adapted(repo: RepoRef, plain: Opened) -> Opened | str:
    layout = plain.layout
    slots = [
        slot
        for kind in (layout.mlp, layout.attention)
        for sets in kind
        for each in sets
        for slot in each.slots.values()
    ]
    matrices = {name: turned(layout.factorization, slot) for slot in slots for name in slot.tensors}
    try:
        return replace(plain, checkpoint=adapted(repo, plain.checkpoint, matrices))
    except (NothingToCompare, CheckpointError) as error:
        return str(error)
