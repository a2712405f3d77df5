"""Names: every name that a factorization says has to be on the disk of a model of its class.

A file may list several names of which the first on disk counts. One that the class never writes would be read from a
repository whose author put a tensor there that the module does not use.
"""

from __future__ import annotations

import fnmatch
import re

from hf_lineage.architecture.registry import Factorization, as_names, prefixes, slots
from hf_lineage.running.model import TinyModel

PLACE = re.compile(r"\{(layer|stage|block|expert)\}")
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def names_said(factorization: Factorization) -> set[str]:
    """Return every name that a registry file says, prefixes with their trailing dot."""
    every_name = {f"{prefix}." for prefix in prefixes(factorization)} | set(factorization.ignores)
    for each in factorization.branches.everything():
        norms = (each.norm, each.output_norm, each.inner_norm, each.fed_by)
        optional = (*norms, each.router, each.correction, each.table, each.learned, each.where, each.unless)
        every_name |= {name for slot in slots(each) for name in slot.tensors}
        every_name |= {name for names in map(as_names, optional) for name in names if name}
    return every_name


def names_unseen(wanted: set[str], tiny: TinyModel) -> set[str]:
    """Return those of the names that are not on the disk of a tiny model."""
    names = (*tiny.shapes, *tiny.model.state_dict())  # `save_original_format=False` writes those in memory
    stored = {NUMBER.sub(".0", f".{tensor}").removesuffix(".weight") for tensor in names}
    return {name for name in wanted if not any(fnmatch.fnmatchcase(tensor, _shown(name)) for tensor in stored)}


def _shown(name: str) -> str:
    """The pattern of a name, with 0 for every number."""
    shown = NUMBER.sub(".0", PLACE.sub("0", name))
    return f".{shown}*" if name.endswith(".") else f"*.{shown}"
