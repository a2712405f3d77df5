"""Components: the parts of a model that are models by themselves, such as its vision, by a table of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from hf_lineage.architecture.config_checks import as_listed, known_type
from hf_lineage.architecture.likeness import Within
from hf_lineage.architecture.registry import listing, lookup, registry_table
from hf_lineage.architecture.schema import as_names, prefixes
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.hub.repo import RepoRef
from hf_lineage.signature.values import Signature
from hf_lineage.source.config import Described, described, named_class, whole_config

PARTS, OWN_CODE = "loading/parts.json", "loading/own_code.yaml"
HEADS = ("lm_head", "score", "norm")
"""Modules beside the layers of a language model that are no parts by themselves."""
MAIN = ("text", "thinker")
"""The part that stands for a model whose own class no factorization lists."""


class Part(msgspec.Struct, frozen=True):
    """A part of the models of a class that is a model by itself."""

    usual: str = msgspec.field(name="class")
    """Its class where its settings do not tell another one."""
    settings: str
    """The key of `config.json` that holds its settings."""
    prefixes: tuple[str, ...]
    """Beginnings of the names of its tensors."""
    read: bool = False
    """Whether the factorization of the class reads it already."""


class _Whole(msgspec.Struct, frozen=True):
    classes: tuple[str, ...]
    parts: dict[str, Part]


class Parts(msgspec.Struct, frozen=True):
    """The table of the parts of transformers' classes, which `python -m tests.parts` writes."""

    whole: tuple[_Whole, ...]
    without: dict[str, tuple[str, ...]]
    """The classes of parts that are not read, or why there are none -> the classes that have them."""


def parts_of_class(config: Mapping[str, Any]) -> Mapping[str, Part]:
    """Return the parts of the class that `config.json` names, or of the listed one with the same parts; may be none."""
    name = named_class(config) or ""
    name = registry_table(OWN_CODE, dict[str, str]).get(name, name)
    return next((row.parts for row in registry_table(PARTS, Parts).whole if name in row.classes), {})


def inside(repo: RepoRef, config: Mapping[str, Any], part: Part) -> Described:
    """Return a part of a model as a model of its own class: that of the type in its settings, else the usual one."""
    within = Within(part.prefixes, part.settings)
    settings = within.config(config)
    of_type = known_type(settings.get("model_type")).classes
    kinds = [name for name in of_type if not parts_of_class({"architectures": [name]})]
    name = (
        part.usual
        if part.usual in kinds or not kinds
        else as_listed({**settings, "architectures": None})["architectures"][0]
    )
    if name not in of_type:
        settings.pop("model_type", None)
    _, factorization = lookup({**settings, "architectures": [name]})
    own = named_class(config) or ""
    read_as = name if own in registry_table(OWN_CODE, dict[str, str]) else ""
    return Described(repo, settings, name, factorization, within=within, read_as=read_as)


def described_main(repo: RepoRef, config: Mapping[str, Any]) -> Described | None:
    """Return the language model of a class that is not listed itself, as a model; None if it has no such part."""
    parts = parts_of_class(config)
    main = next((parts[name] for name in MAIN if name in parts), None)
    return inside(repo, config, main) if main else None


def described_part(repo: RepoRef, config: Mapping[str, Any]) -> Described:
    """Return the part of a model that is meant, as a model of its own class."""
    return inside(repo, config, parts_of_class(config)[repo.part])


def parts_of_model(repo: RepoRef, read: bool = False) -> tuple[RepoRef, ...]:
    """Return the parts of a model that are not read with it, or those that are as well."""
    config = as_listed(repo.config())
    parts = parts_of_class(config)
    listed = any(listing(named_class(config) or ""))
    main = "" if listed else next((name for name in MAIN if name in parts), "")
    return tuple(_part(repo, name) for name, part in parts.items() if read or not (part.read or name == main))


def parts_beside(repo: RepoRef) -> tuple[RepoRef, ...]:
    """Return the parts of a model that are models by themselves, and that are not read with it."""
    if repo.part or not repo.has("config.json"):
        return ()
    return parts_of_model(repo)


def fitting_part(base: RepoRef | Signature, part: RepoRef) -> RepoRef:
    """Return what a part is compared with: the part of the base with its name, one of its class, or all of the base.

    Raise NothingToCompare if there is none.
    """
    if isinstance(base, Signature):
        raise NothingToCompare("a signature stands for the base, which holds no parts")
    if base.part:
        return base
    own = described(part).factorization.name
    parts = parts_of_model(base, read=True) if base.has("config.json") else ()
    alike = [one for one in parts if one.part == part.part]
    alike = alike or [one for one in parts if described(one).factorization.name == own]
    if alike or described(base).factorization.name == own:
        return alike[0] if alike else base
    raise NothingToCompare(f"{base} has no part like {part.part}")


def part_named(repo: RepoRef, name: str) -> RepoRef | None:
    """Return the part of a model that goes by a name, of the table or of its tensors; None if there is none."""
    parts = parts_of_class(as_listed(repo.config())) if repo.has("config.json") else {}
    named = (key for key, part in parts.items() if name == key or f"{name}." in part.prefixes)
    return next((_part(repo, key) for key in named), None)


def _part(repo: RepoRef, name: str) -> RepoRef:
    model, at, revision = repo.name.partition("@")
    return replace(repo, name=f"{model}/{name}{at}{revision}", part=name)


def unread_parts(model: Described, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return a sentence about the matrices that stand in no part of a model; none where there are no such matrices."""
    here = model.within.prefixes if model.within else ()
    own = () if here else (*prefixes(model.factorization), *as_names(model.factorization.embedding), *HEADS)
    parts = parts_of_class(whole_config(model)).values()
    read = {*map(_module, own), *(_module(prefix) for part in parts for prefix in part.prefixes)}
    matrices = (name for name, shape in checkpoint.shapes.items() if len(shape) > 1 and not name.startswith(here))
    others = sorted({*map(_module, matrices)} - read)
    return (f"parts of the model that were not looked at: {printable(', '.join(others), 300)}",) if others else ()


def _module(name: str) -> str:
    """Return the part of a model that a tensor is in, by its name."""
    return name.removeprefix("model.").partition(".")[0]
