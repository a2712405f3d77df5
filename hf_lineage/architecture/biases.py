"""Biases: which vectors beside the matrices of an MLP a class loads; one that it does not load decides nothing.

A bias closes the gate of a hidden unit, or opens it, so that it decides how much the unit weighs. transformers leaves
out what a class does not have, and no error tells of it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hf_lineage.architecture.lookup import registry_root, setting
from hf_lineage.architecture.matrix_sets import LayerSet
from hf_lineage.architecture.tables import read_table
from hf_lineage.errors import NothingToCompare, printable

BIASES = "loading/biases.json"
VECTORS = ("gate", "up", "norm", "fed_by", "router", "correction")
"""The vectors on which the weight of a hidden unit depends, by what they are added to."""
ROLES = VECTORS[:2]
Loads = bool | tuple[str, bool, bool]
"""True, or a key of `config.json`, the value that asks for the vector, and what is so where it says nothing."""


class _Loaded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some classes load."""

    classes: tuple[str, ...]
    has: Mapping[str, Loads]
    """By vector."""


@functools.cache
def _table() -> Mapping[str, Mapping[str, Loads]]:
    read = read_table(registry_root(), BIASES, tuple[_Loaded, ...])
    table: dict[str, dict[str, Loads]] = defaultdict(dict)
    for loaded in read:
        for name in loaded.classes:  # a class with several factorizations has what any of them has
            table[name] |= loaded.has
    return table


def vectors(layer_set: LayerSet) -> Iterator[tuple[str, str]]:
    """Yield what kind each vector of a set is of, and its name."""
    named = {role: layer_set.slots[role].tensor for role in ROLES if role in layer_set.slots}
    named |= {kind: name for kind in VECTORS[2:5] if (name := getattr(layer_set, kind))}
    yield from ((kind, layer_set.biases[name]) for kind, name in named.items() if name in layer_set.biases)
    if layer_set.correction:
        yield VECTORS[5], layer_set.correction


def refuse_biases(architecture: str, sets: Iterable[LayerSet], config: Mapping[str, Any]) -> None:
    """Raise NothingToCompare for a vector beside an MLP that transformers does not load, as far as that is known."""
    has = _table().get(architecture)
    if has is None:
        return
    for kind, name in (vector for layer_set in sets for vector in vectors(layer_set)):
        loaded = has.get(kind, False)
        if isinstance(loaded, tuple):
            value = setting(config, loaded[0])
            loaded = loaded[2] if value is None else bool(value) is loaded[1]
        if not loaded:
            raise NothingToCompare(
                f"{printable(name, 200)} is stored, which {architecture} does not load as config.json is: loaders "
                "disagree whether it counts; remove it, or correct config.json"
            )
