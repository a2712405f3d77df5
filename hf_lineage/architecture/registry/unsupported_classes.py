"""Unsupported: the classes that no factorization can list, each with its reason; one file for each kind of model."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hf_lineage.architecture.registry.tables import read_table
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
        groups: tuple[_Group, ...] = read_table(root, f"{FOLDER}/{path.name}", tuple[_Group, ...])
        for group in groups:
            twice = reasons.keys() & group.classes
            if twice:
                raise RegistryError(f"{FOLDER}/{path.name}: {min(twice)} is listed twice")
            reasons |= dict.fromkeys(group.classes, group.reason)
    return reasons
