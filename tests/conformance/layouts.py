"""One registry file a layout: those that use a key, or a way to store matrices, that none before them uses.

What a file says can be said otherwise, to see whether that is noticed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, MatrixSet, Sets, as_sets, as_stacks


def keys(piece: msgspec.Struct) -> set[str]:
    """The keys of a piece of a registry file whose values are not the defaults."""
    fields = msgspec.structs.fields(piece)
    return {field.name for field in fields if getattr(piece, field.name) not in (field.default, {}, ())}


def layout(file: Factorization) -> set[str]:
    """The keys of a file and of its branches, how it stores matrices, and how many stacks of layers it knows."""
    sets = {branch: as_sets(file.branches.sets(branch)) for branch in BRANCH_ROLES}
    said = {f"{branch} {key}" for branch, every in sets.items() for one in every for key in keys(one)}
    return said | keys(file) | {file.normalization, file.stored, f"{len(as_stacks(file.layers))} stacks"}


LAYOUTS, _known = list[Factorization](), set[str]()
for _file in factorizations():
    if _file.name != "blt" and not layout(_file) <= _known:  # all forms of a BLT take long to build
        LAYOUTS.append(_file)
        _known |= layout(_file)


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
