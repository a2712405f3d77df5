"""Config: as which class a model is read, what `config.json` says about it, and its parts that are models as well."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from hf_lineage.architecture.config_checks import QUANTIZED, as_listed, known_type
from hf_lineage.architecture.registry import LISTED, Choice, choose, classes_named, listing, lookup, registry_table
from hf_lineage.architecture.schema import Factorization, as_names, prefixes
from hf_lineage.checkpoint.foreign_form import ForeignForm
from hf_lineage.checkpoint.open_files import open_weights
from hf_lineage.checkpoint.weight_files import foreign_model, other_format, weights_in
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, UnlistedClass, printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.values import Signature

if TYPE_CHECKING:
    from hf_lineage.architecture.likeness import Like, Within
    from hf_lineage.checkpoint.local import Checkpoint

PARTS, OWN_CODE = "loading/parts.json", "loading/own_code.yaml"
MAIN = ("text", "thinker")  # The part that stands for a model whose own class no factorization lists
SAVED = frozenset({"_name_or_path", "transformers_version", "_commit_hash"})  # Not about what is computed


class Part(msgspec.Struct, frozen=True):
    """A part of the models of a class that is a model by itself."""

    usual: str = msgspec.field(name="class")  # Its class where its settings do not tell another one
    settings: str  # The key of `config.json` that holds its settings
    prefixes: tuple[str, ...]  # Beginnings of the names of its tensors
    read: bool = False  # Whether the factorization of the class reads it already


class _Whole(msgspec.Struct, frozen=True):
    classes: tuple[str, ...]
    parts: dict[str, Part]


class Parts(msgspec.Struct, frozen=True):
    """The table of the parts of transformers' classes, which `python -m tests.parts` writes."""

    whole: tuple[_Whole, ...]
    without: dict[str, tuple[str, ...]]  # Classes of parts that are not read, or why there are none -> their classes


@dataclass(frozen=True)
class ModelConfig:
    """The content of `config.json` about a model, read once."""

    repo: RepoRef
    config: Mapping[str, Any]
    architecture: str  # The name of the class in `config.json`
    factorization: Factorization
    foreign: ForeignForm | None = None  # The form of a converted model; None for a model as transformers saves it
    notes: tuple[str, ...] = ()  # Sentences about choices of the user that nobody has proved
    within: Within | None = None  # Place in the repository of a part, or of a model with other names
    read_as: str = ""  # The listed class with the same tensors as which it is read; empty for a listed one


def holds_others(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration holds one of another model, as that of a model of several parts does."""
    return any(isinstance(value, Mapping) and key not in QUANTIZED for key, value in config.items() if "config" in key)


def named_class(config: Mapping[str, Any]) -> str | None:
    """Return the first class that `config.json` names; None if it names none."""
    return next(iter(classes_named(config)), None)


def whole_config(model: ModelConfig) -> Mapping[str, Any]:
    """Return the whole of `config.json`, of which a model may have only a part."""
    return model.repo.config() if model.within else model.config


def read_config(repo: RepoRef, choice: Choice = LISTED) -> ModelConfig:
    """Return what `config.json` says of a model, or of the listed class with its tensors; else NothingToCompare."""
    config, foreign = model_config(repo)
    with about(repo):
        if repo.part:
            return inside(repo, config, parts_of_class(config)[repo.part])
        try:
            chosen = choose(config, choice)
        except UnlistedClass as error:
            parts = {} if foreign or not holds_others(config) else parts_of_class(config)
            main = next((parts[name] for name in MAIN if name in parts), None)
            return inside(repo, config, main) if main else _alike(repo, config, foreign, error)
        model = ModelConfig(repo, config, chosen.architecture, chosen.factorization, foreign, chosen.notes)
        if not foreign and not repo.config().get("architectures") and "model_type" in repo.config():
            by_type = f"by its model_type it was read as {model.architecture}, as transformers does"
            model = replace(model, notes=(*model.notes, f"config.json names no class; {by_type}"))
        if choice.as_class and chosen.notes and not foreign:
            for like in _likes(repo, config, choice.as_class)[:1]:
                return replace(model, config=like.settings, factorization=like.factorization, within=like.within)
        return model


def _alike(repo: RepoRef, config: Mapping[str, Any], foreign: ForeignForm | None, error: UnlistedClass) -> ModelConfig:
    """Return an unlisted class's model as the one listed class with its tensors; UnlistedClass for none or several."""
    from hf_lineage.architecture.likeness import fitting_class

    likes = () if foreign else _likes(repo, config)
    names = [like.classes[0] for like in likes]
    if not names:
        instead = "registry/README.md explains how to write a factorization, with which `--as ./DIR` reads the model"
        with contextlib.suppress(LineageError, OSError):
            shapes, header_config = open_header(repo)
            if name := fitting_class(_bound_survey(shapes), header_config):
                instead = f"its names and shapes fit {name}: add `--as {name}` to read it as that class"
        raise UnlistedClass(f"{error}; {instead}") from None
    if len(names) > 1:
        each = " or ".join(f"`--as {name}`" for name in names)
        fit = f"its names and shapes fit {' and '.join(names)}, which do not compute the same"
        raise UnlistedClass(f"{error}; {fit}: add {each} to read it as one of them") from None
    note = f"{printable(str(error), 200)}; by its names and shapes it is read as {names[0]}, which nobody has proved"
    architecture, (like,) = named_class(config) or names[0], likes
    model = ModelConfig(repo, like.settings, architecture, like.factorization, None, (note,), like.within)
    return replace(model, read_as=names[0])


def _likes(repo: RepoRef, config: Mapping[str, Any], wanted: str | None = None) -> Sequence[Like]:
    """Return the listed classes with the tensors of a model; none where they are too many, or cannot be read."""
    from hf_lineage.architecture.likeness import find_likes

    with contextlib.suppress(LineageError, OSError):
        return find_likes(_bound_survey(open_weights(weights_in(repo, None), config).shapes), config, wanted)
    return ()


def _bound_survey(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return shapes that are compared with every factorization, none of more than two seconds take."""
    return shapes if len(shapes) <= 20_000 else {}


def open_header(repo: RepoRef) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """Return the shape of every tensor and `config.json`; the class need not be in the registry."""
    config, foreign = model_config(repo)
    checkpoint = open_weights(weights_in(repo, foreign), config)
    if foreign is None:
        return checkpoint.shapes, config
    try:
        return foreign.rename(lookup(config)[1], config, checkpoint).shapes, config
    except UnlistedClass:
        from hf_lineage.checkpoint.foreign_form import strip_common_prefix

        return strip_common_prefix(checkpoint.shapes), config


def model_config(repo: RepoRef) -> tuple[dict[str, Any], ForeignForm | None]:
    """Return `config.json` or what stands for it, and a converted form; NothingToCompare for formats without one."""
    with about(repo):
        if foreign := foreign_model(repo):
            return foreign.config(), foreign
    if not repo.has("config.json") and (instead := other_format(repo)):
        raise NothingToCompare(instead)
    return as_listed(repo.config()), None


@contextlib.contextmanager
def about(repo: RepoRef) -> Iterator[None]:
    """Add the model's name to errors of code that does not know it."""
    try:
        yield
    except (CheckpointError, NothingToCompare) as error:
        is_named = str(error).startswith(f"{repo}: ")
        raise type(error)(str(error) if is_named else f"{repo}: {error}") from None


def parts_of_class(config: Mapping[str, Any]) -> Mapping[str, Part]:
    """Return the parts of the class that `config.json` names, or of the listed one with the same parts; may be none."""
    name = named_class(config) or ""
    name = registry_table(OWN_CODE, dict[str, str]).get(name, name)
    return next((row.parts for row in registry_table(PARTS, Parts).whole if name in row.classes), {})


def inside(repo: RepoRef, config: Mapping[str, Any], part: Part) -> ModelConfig:
    """Return a part of a model as a model of its own class: that of the type in its settings, else the usual one."""
    from hf_lineage.architecture.likeness import Within

    within = Within(part.prefixes, part.settings)
    settings = within.config(config)
    of_type = known_type(settings.get("model_type")).classes
    kinds = [name for name in of_type if not parts_of_class({"architectures": [name]})]
    name = part.usual
    if kinds and name not in kinds:
        name = as_listed({**settings, "architectures": None})["architectures"][0]
    if name not in of_type:
        settings.pop("model_type", None)
    _, factorization = lookup({**settings, "architectures": [name]})
    own = named_class(config) or ""
    read_as = name if own in registry_table(OWN_CODE, dict[str, str]) else ""
    return ModelConfig(repo, settings, name, factorization, within=within, read_as=read_as)


def parts_of_model(repo: RepoRef, read: bool = False) -> tuple[RepoRef, ...]:
    """Return the parts of a model that are models by themselves and are not read with it, or those that are as well."""
    if repo.part or not repo.has("config.json"):
        return ()
    config = as_listed(repo.config())
    parts = parts_of_class(config)
    listed = any(listing(named_class(config) or ""))
    main = "" if listed else next((name for name in MAIN if name in parts), "")
    return tuple(_part(repo, name) for name, part in parts.items() if read or not (part.read or name == main))


def fitting_part(base: RepoRef | Signature, part: RepoRef) -> RepoRef:
    """Return a base's part of the same name, else of the same class, else all of it; NothingToCompare for none."""
    if isinstance(base, Signature):
        raise NothingToCompare("a signature stands for the base, which holds no parts")
    if base.part:
        return base
    own = read_config(part).factorization.name
    parts = parts_of_model(base, read=True)
    alike = [one for one in parts if one.part == part.part]
    alike = alike or [one for one in parts if read_config(one).factorization.name == own]
    if alike or read_config(base).factorization.name == own:
        return alike[0] if alike else base
    raise NothingToCompare(f"{base} has no part like {part.part}")


def part_named(repo: RepoRef, name: str) -> RepoRef | None:
    """Return the part of a model that goes by a name, of the table or of its tensors; None if there is none."""
    parts = parts_of_class(as_listed(repo.config())) if repo.has("config.json") else {}
    keys = (key for key, part in parts.items() if name == key or f"{name}." in part.prefixes)
    return next((_part(repo, key) for key in keys), None)


def _part(repo: RepoRef, name: str) -> RepoRef:
    model, at, revision = repo.name.partition("@")
    return replace(repo, name=f"{model}/{name}{at}{revision}", part=name)


def unread_parts(model: ModelConfig, checkpoint: Checkpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return sentences about unread parts of a model, and the prefixes of those that are judged by themselves."""
    if model.repo.part or not (model.within or holds_others(model.config)):
        return (), ()

    def module(name: str) -> str:
        return name.removeprefix("model.").partition(".")[0]

    here = model.within.prefixes if model.within else ()
    # Beside its layers a language model has a head and a norm, which are no parts by themselves.
    own = *prefixes(model.factorization), *as_names(model.factorization.embedding), "lm_head", "score", "norm"
    parts = parts_of_class(whole_config(model)).values()
    read = {*map(module, () if here else own), *(module(prefix) for part in parts for prefix in part.prefixes)}
    matrices = (name for name, shape in checkpoint.shapes.items() if len(shape) > 1 and not name.startswith(here))
    others = printable(", ".join(sorted({*map(module, matrices)} - read)), 300)
    elsewhere = (prefix for part in parts for prefix in part.prefixes if prefix and not part.read and not model.within)
    return (f"parts of the model that were not looked at: {others}",) if others else (), tuple(elsewhere)
