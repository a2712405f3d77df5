"""Unsupported: the classes that no factorization can list, each with its reason; one file for each kind of model."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from hf_lineage.errors import RegistryError

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
        for group in _parse(path):
            twice = reasons.keys() & group.classes
            if twice:
                raise RegistryError(f"{FOLDER}/{path.name}: {min(twice)} is listed twice")
            reasons |= dict.fromkeys(group.classes, group.reason)
    return reasons


def _parse(path: Path) -> tuple[_Group, ...]:
    try:
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), tuple[_Group, ...])
    except (yaml.YAMLError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise RegistryError(f"{FOLDER}/{path.name}: {error}; registry/README.md documents the schema") from None
