"""Fitting: the listed classes that read everything of a model under its own names, whatever else its class has."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.likeness.patterns import BIASES, find_groups
from hf_lineage.architecture.registry import (
    BRANCH_ROLES,
    Factorization,
    MatrixSet,
    Norms,
    as_names,
    as_sets,
    factorizations,
    prefixes,
    slots,
    unmet,
)
from hf_lineage.errors import CheckpointError


def fitting_class(shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> str | None:
    """Return a listed class that reads all matrices and gains of a model, though others of its tensors may differ.

    Where `config.json` names no class, it is the class that leaves the fewest of them unread.
    """
    groups = {group.prefix: group for group in find_groups(shapes)}
    fits: dict[int, list[Factorization]] = {}
    for factorization in factorizations():
        starts = (pattern.replace("{stage}", "0") for pattern in prefixes(factorization))
        own = next((groups[start] for start in starts if start in groups), None)
        if own is None or unmet(config, factorization.requires) or absent_names(factorization, own.tensors):
            continue
        with contextlib.suppress(CheckpointError):
            left = len(unread(bind(factorization, shapes, config), shapes))
            fits.setdefault(left, []).append(factorization)
    named = classes_named(config)
    nearest = fits.get(0) or (fits[min(fits)][:1] if fits and not named else [])
    if not nearest:
        return None
    best = max(nearest, key=lambda one: len(one.classes))
    return usual_class(best, best.classes, named)


def unread(layout: Layout, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the matrices and gains of the residual width that no branch reads, without `.weight`, `*` for numbers."""
    claimed = {name for layer_set in layout.everything for name in layer_set.tensors}
    layers = tuple(f"{starred(prefix, '{layer}', '{stage}', '{block}')}." for prefix in prefixes(layout.factorization))
    gains = (
        name
        for name, shape in shapes.items()
        if shape == (layout.width,) and name not in claimed and not name.endswith(BIASES)
    )
    inside = (name for name in map(starred, gains) if name.startswith(layers))
    return tuple(dict.fromkeys((*map(starred, layout.unclaimed), *inside)))


def starred(name: str, *numbers: str) -> str:
    """Return a name without `.weight`, with `*` for every number and for every text that stands for a number."""
    for number in numbers:
        name = name.replace(number, "0")
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name.removesuffix(".weight"))


def absent_names(factorization: Factorization, tensors: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the names that a factorization asks for and no layer has; of several sets, those of the nearest set."""
    names: dict[tuple[str, ...], None] = {}
    for sets in map(factorization.branches.sets, BRANCH_ROLES):
        needed = [tuple(_needed(entry)) for entry in as_sets(sets)]
        none = [()] if isinstance(sets, tuple) and None in sets else []
        names |= dict.fromkeys(min((*needed, *none), key=lambda entry: len(_absent(entry, tensors))))
    return _absent(names, tensors)


def _needed(matrices: MatrixSet) -> Iterator[tuple[str, ...]]:
    """Yield the names of a set, each with its alternatives."""
    stored = {name: (name,) for slot in slots(matrices) for name in slot.tensors}
    yield from stored.values()
    norms: tuple[Norms, ...] = (matrices.norm, matrices.output_norm, matrices.inner_norm)
    for names in norms:
        wanted = as_names(names)
        if wanted and None not in wanted:
            yield tuple(str(name) for name in wanted)


def _absent(asked: Iterable[tuple[str, ...]], tensors: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the names that no layer has; only `bind` can check names beside the layers."""
    return tuple(
        " or ".join(names)
        for names in asked
        if not any("{layer}" in name or name.replace("{expert}", "0") in tensors or name in tensors for name in names)
    )


def classes_named(config: Mapping[str, Any]) -> list[str]:
    """Return the classes that `config.json` names."""
    names = config.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def usual_class(factorization: Factorization, classes: Sequence[str], named: Sequence[str]) -> str:
    """Return the class that a factorization is called after, with the head of a class that is named, if it can be."""
    heads = {name.partition("For")[2] for name in named if "For" in name or name.endswith("Model")}
    return max(
        classes,
        key=lambda name: (
            name.lower().startswith(factorization.name.partition("_")[0]),
            (head := name.partition("For")[2]) in heads,
            head == "CausalLM",
            -len(name),
        ),
    )
