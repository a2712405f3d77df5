"""Config: as which class a model is read, and what `config.json` says about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hf_lineage.architecture.config_checks import QUANTIZED, as_listed
from hf_lineage.architecture.registry import LISTED, Choice, choose, lookup
from hf_lineage.architecture.schema import Factorization
from hf_lineage.checkpoint.foreign import foreign_model
from hf_lineage.checkpoint.foreign_form import ForeignForm
from hf_lineage.checkpoint.open_files import open_weights
from hf_lineage.checkpoint.weight_files import other_format, weights_in
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, UnlistedClass, printable
from hf_lineage.hub.repo import RepoRef

if TYPE_CHECKING:
    from hf_lineage.architecture.likeness import Like, Within


SAVED = frozenset({"_name_or_path", "transformers_version", "_commit_hash"})
"""Settings that say where a model was saved and by what, and nothing about what it computes."""


@dataclass(frozen=True)
class Described:
    """The content of `config.json` about a model, read once."""

    repo: RepoRef
    config: Mapping[str, Any]
    architecture: str
    """The name of the class in `config.json`."""
    factorization: Factorization
    foreign: ForeignForm | None = None
    """The form of a converted model; None for a model as transformers saves it."""
    notes: tuple[str, ...] = ()
    """Sentences about choices of the user that nobody has proved."""
    within: Within | None = None
    """Place of the model in the repository, where it is a part of it or has other names; None for all of it."""
    read_as: str = ""
    """The listed class that it is read as because it has the same tensors; empty where the registry lists its own."""


def holds_others(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration holds one of another model, as that of a model of several parts does."""
    return any(isinstance(value, Mapping) and key not in QUANTIZED for key, value in config.items() if "config" in key)


def named_class(config: Mapping[str, Any]) -> str | None:
    """Return the first class that `config.json` names; None if it names none."""
    named = config.get("architectures")
    return next((name for name in named if isinstance(name, str)), None) if isinstance(named, list) else None


def whole_config(model: Described) -> Mapping[str, Any]:
    """Return the whole of `config.json`, of which a model may have only a part."""
    return model.repo.config() if model.within else model.config


MOST_SURVEYED = 20_000
"""The most tensors of an unlisted class that are compared with every factorization, which takes two seconds."""


def described(repo: RepoRef, choice: Choice = LISTED) -> Described:
    """Return what `config.json` says about a model; raise NothingToCompare if no factorization lists its class.

    A class that is not listed, and whose tensors are those of one listed class, is read as that.
    """
    config, foreign = _config_and_form(repo)
    with about(repo):
        if repo.part:
            from hf_lineage.source.parts import described_part

            return described_part(repo, config)
        try:
            chosen = choose(config, choice)
        except UnlistedClass as error:
            if foreign or not holds_others(config):
                return _alike(repo, config, foreign, error)
            from hf_lineage.source.parts import described_main

            return described_main(repo, config) or _alike(repo, config, foreign, error)
        notes = (*chosen.notes, *(() if foreign else _of_type(repo.config(), chosen.architecture)))
        model = Described(repo, config, chosen.architecture, chosen.factorization, foreign, notes)
        return _placed(model, choice) if choice.as_class and chosen.notes and not foreign else model


def _alike(repo: RepoRef, config: Mapping[str, Any], foreign: ForeignForm | None, error: UnlistedClass) -> Described:
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
        from hf_lineage.checkpoint.foreign_tensors import strip_common_prefix

        return strip_common_prefix(checkpoint.shapes), config


def model_config(repo: RepoRef) -> dict[str, Any]:
    """Return `config.json`, or what a converted model says in its place.

    Raise NothingToCompare for a LoRA adapter or a format that is complete without a configuration.
    """
    return _config_and_form(repo)[0]


def _config_and_form(repo: RepoRef) -> tuple[dict[str, Any], ForeignForm | None]:
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
