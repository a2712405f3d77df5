"""Choice: how the user has a model read whose class the registry does not list, and which own files were proved.

What was proved on this machine, and for which classes, is kept with the user's configuration and never in the folder of
factorizations, which may come from a repository whose author could write there what he likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hf_lineage import __version__
from hf_lineage.architecture.registry.lookups import fitting, listing, lookup
from hf_lineage.architecture.registry.schema import Factorization
from hf_lineage.errors import OptionError, RegistryError, UnlistedClass, printable
from hf_lineage.files import configuration, of_this_user_alone, write_atomically

PRIVATE, READABLE = 0o700, 0o600


def record(factorization: Factorization, architecture: str, release: str) -> Path:
    """Note that a factorization was proved for a class, on the module of this release of transformers."""
    file = _file(factorization, architecture)
    content = {"factorization": factorization.name, "class": architecture, "transformers": release}
    try:
        file.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(content), READABLE)
    except OSError as error:
        why = error.strerror or error
        raise OptionError(f"{file} cannot be written: {why}; name another folder in XDG_CONFIG_HOME") from None
    return file


def is_proved(factorization: Factorization, architecture: str) -> bool:
    """Return whether exactly this factorization was proved for a class, by this release and on this machine."""
    return of_this_user_alone(_file(factorization, architecture))


def _file(factorization: Factorization, architecture: str) -> Path:
    """Where the note is, by a digest of all that the proof depends on."""
    parts = (__version__, architecture, factorization.name, msgspec.json.encode(factorization).decode())
    return configuration() / "proved" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.json"


@dataclass(frozen=True)
class Choice:
    """What is done with a class that the registry does not list; one that it lists is read as it says."""

    as_class: str | None = None
    """The listed class whose layers the model has."""
    registry: Path | None = None
    """A folder of factorizations of the user's own."""


LISTED: Choice = Choice()
"""Only what the registry lists is read."""
_CHECK = "check the folder that --registry, --prove or `registry` in the trust file names"


@dataclass(frozen=True)
class Chosen:
    """The class of a model, its factorization, and sentences about what nobody has proved of them."""

    architecture: str
    factorization: Factorization
    notes: tuple[str, ...] = ()


def choose(config: Mapping[str, Any], choice: Choice) -> Chosen:
    """Return how a model is read; UnlistedClass if neither the registry nor the choice says so."""
    try:
        return Chosen(*lookup(config))
    except UnlistedClass:
        if choice == LISTED:
            raise
    named = config.get("architectures")
    own = next((name for name in named if isinstance(name, str)), None) if isinstance(named, list) else None
    wanted = [choice.as_class] if choice.as_class else [own] if own else []
    candidates = [(name, one) for name in wanted for one in own_factorizations(choice.registry, name)]
    if candidates:
        name, factorization = fitting(config, candidates)

        proved = is_proved(factorization, name)
        how = "which was proved on this machine" if proved else "an unproved factorization"
        notes = [f"read by {factorization.name}.yaml of --registry, {how}"]
    else:
        name, factorization = lookup({**config, "architectures": wanted})
        notes = []
    if choice.as_class:
        shown = printable(own or "a class that config.json does not name", 200)
        notes.append(f"read as {name} (--as) in place of {shown}; it is not proved that both compute the same")
    return Chosen(own or name, factorization, tuple(notes))


def own_factorizations(root: Path | None, name: str) -> list[Factorization]:
    """Return the factorizations of a folder that list a class.

    Raise RegistryError if one breaks the schema, or there is none at all.
    """
    if root is None:
        return []
    try:
        listed = list(listing(name, root))
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{root} cannot be read: {error}; {_CHECK}") from None
    if not any(root.glob("*.yaml")):
        raise RegistryError(f"{root} holds no factorization (a file *.yaml); {_CHECK}")
    return listed
