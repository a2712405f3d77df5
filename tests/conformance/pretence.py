"""Pretence: what the registry says, said otherwise."""

from __future__ import annotations

from typing import Any

import msgspec

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import Factorization, MatrixSet, Sets


def pretend(name: str, **changes: Any) -> Factorization:
    """A factorization with its branches, or anything else about it, said differently."""
    found = next(found for found in factorizations() if found.name == name)
    branches = {kind: changes.pop(kind) for kind in ("mlp", "attention") if kind in changes}
    edited = {kind: _edit(getattr(found.branches, kind), said) for kind, said in branches.items()}
    return msgspec.structs.replace(found, branches=msgspec.structs.replace(found.branches, **edited), **changes)


def _edit(sets: Sets, said: dict[str, Any]) -> Sets:
    """Every set of a branch, said differently."""
    if isinstance(sets, MatrixSet):
        return msgspec.structs.replace(sets, **said)
    return tuple(each and msgspec.structs.replace(each, **said) for each in sets)
