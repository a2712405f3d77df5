"""Describing: as which class a model is read, by what `config.json` says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hf_lineage.architecture.loading import as_listed
from hf_lineage.architecture.registry import LISTED, Choice, choose, lookup
from hf_lineage.checking.source.description import Described, holds_others, named_class
from hf_lineage.checkpoint import open_weights, other_format, weights_in
from hf_lineage.checkpoint.foreign import ForeignModel, foreign_model
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, UnlistedClass, printable
from hf_lineage.hub import RepoRef

if TYPE_CHECKING:
    from hf_lineage.architecture.likeness import Like

MOST_SURVEYED = 20_000
"""The most tensors of an unlisted class that are compared with every factorization, which takes two seconds."""


def described(repo: RepoRef, choice: Choice = LISTED) -> Described:
    """Return what `config.json` says about a model; raise NothingToCompare if no factorization lists its class.

    A class that is not listed, and whose tensors are those of one listed class, is read as that.
    """
    config, foreign = _config_and_form(repo)
    with about(repo):
        if repo.part:
            from hf_lineage.checking.source.components import described_part

            return described_part(repo, config)
        try:
            chosen = choose(config, choice)
        except UnlistedClass as error:
            if foreign or not holds_others(config):
                return _alike(repo, config, foreign, error)
            from hf_lineage.checking.source.components import described_main

            return described_main(repo, config) or _alike(repo, config, foreign, error)
        notes = (*chosen.notes, *(() if foreign else _of_type(repo.config(), chosen.architecture)))
        model = Described(repo, config, chosen.architecture, chosen.factorization, foreign, notes)
        return _placed(model, choice) if choice.as_class and chosen.notes and not foreign else model


def _alike(repo: RepoRef, config: Mapping[str, Any], foreign: ForeignModel | None, error: UnlistedClass) -> Described:
    """Return an unlisted class's model as the one listed class with its tensors; UnlistedClass for none or several."""
    likes = () if foreign else _likes(repo, config)
    names = [like.architecture for like in likes]
    if not names:
        raise UnlistedClass(f"{error}; {_instead(repo)}") from None
    if len(names) > 1:
        each = " or ".join(f"`--as {name}`" for name in names)
        raise UnlistedClass(
            f"{error}; its names and shapes fit {' and '.join(names)}, which do not compute the same: add {each} to "
            "read it as one of them"
        ) from None
    note = f"{printable(str(error), 200)}; by its names and shapes it is read as {names[0]}, which nobody has proved"
    (like,) = likes
    known = Described(repo, like.settings, named_class(config) or names[0], like.factorization, notes=(note,))
    return replace(known, within=like.within, read_as=names[0])


def _placed(model: Described, choice: Choice) -> Described:
    """Return a model that is read as the class that the user chose, at the place of that class's tensors."""
    for like in _likes(model.repo, model.config, choice.as_class)[:1]:
        return replace(model, config=like.settings, factorization=like.factorization, within=like.within)
    return model


def _likes(repo: RepoRef, config: Mapping[str, Any], wanted: str | None = None) -> Sequence[Like]:
    """Return the listed classes with the tensors of a model; none where they are too many, or cannot be read."""
    from hf_lineage.architecture.likeness import find_likes

    with contextlib.suppress(LineageError, OSError):
        shapes = open_weights(weights_in(repo, None), config).shapes
        return find_likes(shapes, config, wanted) if len(shapes) <= MOST_SURVEYED else ()
    return ()


def _of_type(config: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Yield a sentence about a configuration that names no class, and a model type."""
    if not config.get("architectures") and "model_type" in config:
        yield f"config.json names no class; by its model_type it was read as {architecture}, as transformers does"


def _instead(repo: RepoRef) -> str:
    """Return what a user can do with a class that fits no listed one as it is."""
    from hf_lineage.architecture.likeness import fitting_class

    with contextlib.suppress(LineageError, OSError):
        shapes, config = open_header(repo)
        if name := fitting_class(shapes if len(shapes) <= MOST_SURVEYED else {}, config):
            return f"its names and shapes fit {name}: add `--as {name}` to read it as that class"
    return "registry/README.md explains how to write a factorization, with which `--as ./DIR` reads the model"


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
    """Return `config.json`, or what a converted model says in its place.

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
