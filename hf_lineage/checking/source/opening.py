"""Opened: the headers of a model, read as transformers would load it: its class, its tensors and its layout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.architecture import Layout, bind
from hf_lineage.architecture.loading import (
    World,
    as_listed,
    as_loaded,
    own_code,
    parts,
    refuse_hidden,
    scalar_reservations,
    settings_notes,
    settings_reservations,
    usual_type,
    world,
)
from hf_lineage.architecture.registry import LISTED, Choice, Factorization, choose, factorizations, lookup
from hf_lineage.checkpoint import Checkpoint, WeightFiles, open_weights, other_format, weights_in
from hf_lineage.checkpoint.foreign import ForeignModel, foreign_model
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, UnlistedClass
from hf_lineage.hub import RepoRef

QUANTIZED = ("quantization_config", "compression_config")
"""Keys of `config.json` that may name transforms, which only some loaders run."""
MOST_SURVEYED = 20_000
"""The most tensors of an unlisted class that are compared with every factorization, which takes two seconds."""


@dataclass(frozen=True)
class Described:
    """What `config.json` says about a model, read once."""

    repo: RepoRef
    config: Mapping[str, Any]
    architecture: str
    """The name of the class in `config.json`."""
    factorization: Factorization
    foreign: ForeignModel | None = None
    """How it is read where it is not as transformers saves it."""
    notes: tuple[str, ...] = ()
    """Sentences about choices of the user that nobody has proved."""


@dataclass(frozen=True)
class Opened:
    """A model whose headers are read, and not its weights."""

    described: Described
    weights: WeightFiles
    checkpoint: Checkpoint
    layout: Layout
    notes: tuple[str, ...] = ()
    """Sentences about files beside the weights that were not read."""
    reservations: tuple[str, ...] = ()
    """Reasons why these weights neither verify nor contradict a claim, whatever they show."""
    streams: Mapping[int, float] | None = None
    """By the number of a layer, how large the stream was in it when the model ran; None where it was not run."""

    @property
    def own_code(self) -> str:
        """A sentence about code that the repository brings; empty if it has none."""
        return own_code(self.described.config)


def described(repo: RepoRef, choice: Choice = LISTED) -> Described:
    """Return what `config.json` says about a model; raise NothingToCompare if no factorization lists its class."""
    config, foreign = _config_and_form(repo)
    with about(repo):
        try:
            chosen = choose(config, choice)
        except UnlistedClass as error:
            raise UnlistedClass(f"{error}; {_instead(repo)}") from None
    return Described(repo, config, chosen.architecture, chosen.factorization, foreign, chosen.notes)


def _instead(repo: RepoRef) -> str:
    """What a user can do with a class that the registry does not list, with the command that would work."""
    from hf_lineage.architecture.drafting import survey

    with contextlib.suppress(LineageError, OSError):
        shapes, config = open_header(repo)
        suggestion = survey(repo.name, shapes if len(shapes) <= MOST_SURVEYED else {}, config)
        nearest = () if suggestion.classes else suggestion.fits[:1]
        fits = {fit.factorization for fit in suggestion.fits if not fit.unread} or {
            fit.factorization for fit in nearest
        }
        if fitting := [one for one in factorizations() if one.name in fits]:
            name = _usual(max(fitting, key=lambda one: len(one.classes)), suggestion.classes)
            return (
                f"its names and shapes fit {name}: add `--as {name}` to read it as that class; "
                f"`hf-lineage registry --check {repo.typed}` shows what else fits"
            )
    return (
        f"`hf-lineage registry --check {repo.typed} --write DIR` drafts a factorization; add `--registry DIR` to read "
        "the model with it"
    )


def opened(model: Described) -> Opened:
    """Return a model's headers, read as transformers loads it.

    Raise NothingToCompare if it may be loaded in more than one way, CheckpointError if it is damaged.
    """
    with about(model.repo):
        settings = settings_notes(model.config, model.architecture, model.factorization)
    headers = bound(model)
    checkpoint = headers.checkpoint
    with about(model.repo):
        hidden = refuse_hidden(headers.layout, checkpoint.shapes, model.config, checkpoint.decoded)
    notes = (*model.notes, *settings, *headers.notes, *hidden, *_wrapped(checkpoint), *headers.weights.notes())
    return replace(headers, notes=notes, reservations=(*headers.reservations, *_reservations(headers)))


def _reservations(headers: Opened) -> Iterator[str]:
    """Sentences about settings and small tensors with which a branch may not reach the stream."""
    model, checkpoint = headers.described, headers.checkpoint
    usual = usual_type(model.config, model.architecture)
    yield from settings_reservations(model.config, usual)
    with about(model.repo):
        inside = parts(model.config, usual)
        yield from scalar_reservations(headers.layout, checkpoint.shapes, checkpoint.read, inside, checkpoint.prefetch)


def _wrapped(checkpoint: Checkpoint) -> tuple[str, ...]:
    """A sentence about a prefix of all names that only some loaders take off; none if there is no such prefix."""
    if not checkpoint.wrapping:
        return ()
    return (f"the name of every tensor begins with {checkpoint.wrapping}; it was removed, but transformers does not",)


def bound(model: Described) -> Opened:
    """Return a model's headers without the checks for other ways to load it; raise as `opened` does."""
    weights = weights_in(model.repo, model.foreign)
    checkpoint = open_weights(weights, model.config)
    with about(model.repo):
        if model.foreign:
            checkpoint = model.foreign.rename(model.factorization, model.config, checkpoint)
        if model.factorization.stored == "in_out":
            checkpoint = _in_out(checkpoint)
        known = World()
        try:
            reading = as_loaded(model.factorization, checkpoint.shapes, model.config)
            known = _world(model, reading.shapes)
            left = {name: tensor for name, tensor in checkpoint.tensors.items() if name not in known.outside}
            checkpoint = checkpoint.with_tensors(left)
            built = {name: shape for name, shape in reading.shapes.items() if name in left}
            layout = bind(model.factorization, built, model.config)
        except CheckpointError as error:
            if doubt := weights.doubt or "; ".join(known.notes):
                raise NothingToCompare(f"{doubt}; {error}") from None
            raise
    checkpoint = checkpoint.with_whole_numbers(layout.tables)
    return Opened(model, weights, checkpoint, layout, (*reading.notes, *known.notes), known.reservations)


def _world(model: Described, shapes: Mapping[str, tuple[int, ...]]) -> World:
    """What transformers makes of these tensors; nothing is known of what another program loads."""
    if model.foreign and not model.foreign.by_transformers:
        return World()
    return world(model.architecture, model.factorization, shapes, model.config)


def _in_out(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint of a class with matrices (in, out); those that a quantizer transposed are transposed back."""
    return checkpoint.with_tensors(
        {name: tensor.turned() if tensor.linear else tensor for name, tensor in checkpoint.tensors.items()}
    )


def headers(repo: RepoRef, choice: Choice = LISTED) -> Opened:
    """Return a model's headers without the checks for other ways to load it; raise as `opened` does."""
    return bound(described(repo, choice))


def open_header(repo: RepoRef) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """Return the shape of every tensor and `config.json`; the class need not be in the registry."""
    config, foreign = _config_and_form(repo)
    checkpoint = open_weights(weights_in(repo, foreign), config)
    if foreign is None:
        return checkpoint.shapes, config
    try:
        return foreign.rename(lookup(config)[1], config, checkpoint).shapes, config
    except UnlistedClass:
        from hf_lineage.checkpoint.foreign import strip_common_prefix

        return strip_common_prefix(checkpoint.shapes), config


def model_config(repo: RepoRef) -> dict[str, Any]:
    """Return `config.json`, or what a converted model or `params.json` says in its place.

    Raise NothingToCompare for a LoRA adapter or a format that is complete without a configuration.
    """
    return _config_and_form(repo)[0]


def _config_and_form(repo: RepoRef) -> tuple[dict[str, Any], ForeignModel | None]:
    with about(repo):
        if foreign := foreign_model(repo):
            return foreign.config(), foreign
    instead = None if repo.has("config.json") else other_format(repo)
    if instead:
        raise NothingToCompare(instead)
    return as_listed(repo.config()), None


@contextlib.contextmanager
def about(repo: RepoRef) -> Iterator[None]:
    """Add the model's name to errors of code that does not know it."""
    try:
        yield
    except (CheckpointError, NothingToCompare) as error:
        named = str(error).startswith(f"{repo}: ")
        raise type(error)(str(error) if named else f"{repo}: {error}") from None


def _usual(factorization: Factorization, named: Sequence[str]) -> str:
    """The class that a factorization is called after, with the same head as the class that config.json names."""
    heads = {name.partition("For")[2] for name in named}
    return max(
        factorization.classes,
        key=lambda name: (
            name.lower().startswith(factorization.name.partition("_")[0]),
            name.partition("For")[2] in heads,
        ),
    )
