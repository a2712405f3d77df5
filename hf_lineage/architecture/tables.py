"""Tables: the files of the registry that stand beside the factorizations, each checked against a type.

One table has the classes that no factorization can list, each with its reason. Another has the files and tensors that
people publish in place of a model or a tensor, with a remedy for each.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from hf_lineage.errors import RegistryError, printable

T = TypeVar("T")
parse_yaml = functools.partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""With libyaml it reads the registry about eight times as fast as PyYAML does alone."""


@functools.cache
def registry_root() -> Path:
    """Return the folder of factorizations: the one packed into the wheel, else the repository's."""
    package = Path(__file__).parents[1]
    packaged = package / "data" / "registry"
    return packaged if packaged.is_dir() else package.parent / "registry"


def registry_table(file: str, kind: type[T]) -> T:
    """Return the content of a file of the registry itself, as `read_table` does."""
    table: T = read_table(registry_root(), file, cast(Any, kind))
    return table


@functools.cache
def read_table(root: Path, file: str, kind: Any) -> Any:
    """Return the content of a YAML or JSON file of a registry's folder, as a value of this type.

    Raise RegistryError if it is missing or holds anything else.
    """
    parse = json.loads if file.endswith(".json") else parse_yaml
    try:
        return msgspec.convert(parse((root / file).read_text(encoding="utf-8")), kind)
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError) as error:
        raise RegistryError(f"{file}: {error}; registry/README.md documents the schema") from None


class _Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names, and a sentence about a repository or tensor that has one of them."""

    names: tuple[str, ...]
    sentence: str
    beside: str = ".*"
    without: str = "(?!)"
    """Patterns of another name that has to be there, and of names of which none may be."""


def find_known(kind: str, names: Collection[str]) -> str:
    """Return the sentence in a list of `loading/known.yaml` about the first of these names in it; empty for none."""
    for row in registry_table("loading/known.yaml", dict[str, tuple[_Known, ...]])[kind] if names else ():
        found, beside, without = (
            next(filter(re.compile(pattern).fullmatch, sorted(names)), None)
            for pattern in ("|".join(row.names), row.beside, row.without)
        )
        if found is not None and beside is not None and without is None:
            return row.sentence.format(printable(found, 200))
    return ""


FOLDER = "unsupported"


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes that share a reason."""

    reason: str
    classes: tuple[str, ...]


@functools.cache
def unsupported(root: Path) -> Mapping[str, str]:
    """Return the reason for every class in a registry's folder; raise RegistryError where a file breaks the schema."""
    reasons: dict[str, str] = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        groups: tuple[_Group, ...] = read_table(root, f"{FOLDER}/{path.name}", tuple[_Group, ...])
        for group in groups:
            twice = reasons.keys() & group.classes
            if twice:
                raise RegistryError(f"{FOLDER}/{path.name}: {min(twice)} is listed twice")
            reasons |= dict.fromkeys(group.classes, group.reason)
    return reasons
