"""Choice: the user's choice of a class or a registry for a model whose class the registry does not list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.architecture.registry.lookups import fitting, listing, lookup
from hf_lineage.architecture.registry.schema import Factorization
from hf_lineage.errors import RegistryError, UnlistedClass, printable


@dataclass(frozen=True)
class Choice:
    """The reading that the user chooses for an unlisted class; a listed class is read as the registry says."""

    as_class: str | None = None
    """The listed class whose layers the model has."""
    registry: Path | None = None
    """A folder of factorizations of the user's own."""


LISTED: Choice = Choice()
"""The choice by which only classes of the registry are read."""
_CHECK = "check the folder that --as names"


@dataclass(frozen=True)
class Chosen:
    """The class of a model, its factorization, and sentences about what is not proved of them."""

    architecture: str
    factorization: Factorization
    notes: tuple[str, ...] = ()


def choose(config: Mapping[str, Any], choice: Choice) -> Chosen:
    """Return the class and the factorization of a model; UnlistedClass if neither registry nor choice has them."""
    try:
        return Chosen(*lookup(config))
    except UnlistedClass:
        if choice == LISTED:
            raise
    named = config.get("architectures")
    own = next((name for name in named if isinstance(name, str)), None) if isinstance(named, list) else None
    wanted = [choice.as_class] if choice.as_class else [own] if own else []
    candidates = [(name, one) for name in wanted for one in _own(choice.registry, name)]
    if candidates:
        name, factorization = fitting(config, candidates)
        notes = [f"read by {factorization.name}.yaml of the folder that --as names, an unproved factorization"]
    else:
        name, factorization = lookup({**config, "architectures": wanted})
        notes = []
    if choice.as_class:
        shown = printable(own or "a class that config.json does not name", 200)
        notes.append(f"read as {name} (--as) in place of {shown}; it is not proved that both compute the same")
    return Chosen(own or name, factorization, tuple(notes))


def _own(root: Path | None, name: str) -> list[Factorization]:
    """Return the factorizations of a folder that list a class; RegistryError if there are none or a file is invalid."""
    if root is None:
        return []
    try:
        listed = list(listing(name, root))
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{root} cannot be read: {error}; {_CHECK}") from None
    if not any(root.glob("*.yaml")):
        raise RegistryError(f"{root} holds no factorization (a file *.yaml); {_CHECK}")
    return listed
