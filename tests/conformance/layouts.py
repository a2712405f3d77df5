"""One registry file a layout: those that use a key, or a way to store matrices, that none before them uses."""

import msgspec

from hf_lineage.architecture.registry import factorizations
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, as_sets, as_stacks


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
