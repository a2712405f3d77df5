"""Prove: whether a factorization is what the class of a model computes, in the form that its `config.json` asks for.

A proof names everything in which a factorization differs from what the real module computes. Every name that it says
has to be on the disk of a model of its class: one that the class never writes would be read from a repository whose
author put a tensor there that the module does not use.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import torch

from hf_lineage.architecture.registry import factorizations, slots
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, as_names, as_sets, as_stacks, prefixes
from hf_lineage.signature.factors import matrix_products
from hf_lineage.signature.recipe import Recipe
from tests.conformance.rules import RULES
from tests.conformance.run import FOLDED, Run
from tests.conformance.tiny import PLAIN, TinyModel

PLACE = re.compile(r"\{(layer|stage|block|expert)\}")
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def names_said(factorization: Factorization) -> set[str]:
    """Return every name that a registry file says, prefixes with their trailing dot."""
    every_name = {f"{prefix}." for prefix in prefixes(factorization)} | set(factorization.ignores)
    for each in factorization.branches.everything():
        norms = (each.norm, each.output_norm, each.inner_norm)
        optional = (*norms, each.where, each.unless)
        every_name |= {name for slot in slots(each) for name in slot.tensors}
        every_name |= {name for names in map(as_names, optional) for name in names if name}
    return every_name


def names_unseen(wanted: set[str], tiny: TinyModel) -> set[str]:
    """Return those of the names that are not on the disk of a tiny model."""
    names = (*tiny.shapes, *tiny.model.state_dict())  # `save_original_format=False` writes those in memory
    stored = {NUMBER.sub(".0", f".{tensor}").removesuffix(".weight") for tensor in names}
    zeros = {name: NUMBER.sub(".0", PLACE.sub("0", name)) for name in wanted}
    patterns = {name: f".{zero}*" if name.endswith(".") else f"*.{zero}" for name, zero in zeros.items()}
    return {name for name, pattern in patterns.items() if not fnmatch.filter(stored, pattern)}


def faults(tiny: TinyModel) -> dict[str, Any]:
    """By the name of what noticed them; none if the factorization is the module's."""
    noticed = {"unclaimed": tiny.layout.unclaimed, "deviations": deviations(tiny)}
    return {name: seen for name, seen in (noticed | {rule.__name__: rule(tiny) for rule in RULES}).items() if seen}


def deviations(tiny: TinyModel) -> dict[str, float]:
    """Path and recipe -> how far the worst product is from what the module computes, where that is not rounding."""
    everything = {
        f"{path} {'folded' if recipe.gains else 'plain'}": list(differences(tiny, path, recipe))
        for path in tiny.layout.paths
        for recipe in (PLAIN, FOLDED)
    }
    return {label: max(seen) for label, seen in everything.items() if not all(each < 1e-4 for each in seen)}


def differences(tiny: TinyModel, path: str, recipe: Recipe) -> Iterator[float]:
    """For every writer of a path the relative distance between the branch product and what the module gives out."""
    run = Run(tiny, path, recipe.gains).go()
    products: dict[Any, torch.Tensor] = {}
    for layer in range(tiny.layout.layers):
        sets = [each for at, each in tiny.sets(path) if at == layer]
        for each, term in zip(sets, matrix_products(tiny.layout, path, layer, recipe, tiny.read), strict=True):
            key = layer if path == "query_key" else run.exit(each)
            products[key] = products.get(key, torch.zeros(())) + torch.from_numpy(term.out @ term.inn)
    count = len(run.known)
    for key, product in products.items():
        if path == "query_key":
            scores = run.scores[key].flatten(0, -3).sum(0)
            scores = scores[:, scores.any(dim=0)][2 * count : 4 * count, : 2 * count]  # padding scores nothing
            rows, against = (scores[:count] - scores[count:]) / 2, run.known @ product @ run.known.mT
            seen = (rows[:, :count] - rows[:, count:]) / 2
            seen, expected = seen / seen.norm(), against / against.norm()  # the softmax has a scale of its own
        else:
            given = run.outputs[key]
            seen, expected = (given[:count] - given[count:]) / 2, run.known @ product.mT
        yield float((seen - expected).norm() / expected.norm())


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
"""The files that use a key, or a way to store matrices, that none before them uses."""
for _file in factorizations():
    if _file.name != "blt" and not layout(_file) <= _known:  # all forms of a BLT take long to build
        LAYOUTS.append(_file)
        _known |= layout(_file)


def pretend(name: str, **changes: Any) -> Factorization:
    """A factorization with its branches, or anything else about it, said differently."""
    found = next(found for found in factorizations() if found.name == name)
    edited: dict[str, Any] = {}
    for kind in changes.keys() & {"mlp", "attention"}:
        sets, said = getattr(found.branches, kind), changes.pop(kind)
        several = isinstance(sets, tuple)
        changed = tuple(each and msgspec.structs.replace(each, **said) for each in (sets if several else (sets,)))
        edited[kind] = changed if several else changed[0]
    return msgspec.structs.replace(found, branches=msgspec.structs.replace(found.branches, **edited), **changes)
