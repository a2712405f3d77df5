"""Suggestion: which registry files fit a model whose class is not listed; never a verdict, and never used for one.

A fit says that names and shapes agree. Whether a branch computes what its file says is proved on the real module, by
the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hf_lineage.architecture.drafting.draft import Draft, draft, unread
from hf_lineage.architecture.drafting.patterns import LayerGroup, find_groups
from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.registry import (
    BRANCH_ROLES,
    Factorization,
    MatrixSet,
    Norms,
    as_names,
    as_sets,
    factorizations,
    prefixes,
    setting,
    slots,
    unmet,
)
from hf_lineage.errors import CheckpointError, printable

NEAREST = 5
"""How many near misses are shown."""


@dataclass(frozen=True)
class Fit:
    """A factorization that binds to the model."""

    factorization: str
    layers: int
    width: int
    unread: tuple[str, ...]
    """Matrices and gains of the residual width that it reads none of, `*` for every number."""


@dataclass(frozen=True)
class Miss:
    """A factorization that does not bind, and what would have to change."""

    factorization: str
    names: int
    """How many names it asks for."""
    missing: tuple[str, ...]
    """Those that no layer has, relative to the layer."""
    layers: str | None
    """The prefix that the layers have in place of those that it knows."""
    problem: str | None
    """What does not fit, if every name exists."""

    @property
    def changes(self) -> int:
        """How many things would have to change."""
        return len(self.missing) + (self.layers is not None) + (self.problem is not None)

    @property
    def is_near(self) -> bool:
        """Whether at least half of its names exist."""
        return 0 < self.names >= 2 * len(self.missing)


@dataclass(frozen=True)
class Suggestion:
    """The factorizations that fit one model or nearly fit it, and a draft of a new one."""

    model: str
    classes: tuple[str, ...]
    """What config.json names."""
    remote_code: bool
    """Whether config.json asks for code of its own, which is never run."""
    listed: tuple[str, ...]
    """The factorizations that list one of these classes."""
    layers: tuple[str, ...]
    """The prefixes under which layers are, the one with the most matrices first."""
    fits: tuple[Fit, ...]
    """The one that leaves the fewest tensors unread first."""
    misses: tuple[Miss, ...]
    """The nearest first."""
    draft: Draft | None
    """None if a file that lists the class fits already, or there are no layers."""


def survey(
    model: str,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    registry: Sequence[Factorization] | None = None,
) -> Suggestion:
    """Return which factorizations a header fits, which it nearly fits, and a draft of a new one."""
    searched = factorizations() if registry is None else registry
    named = config.get("architectures")
    classes = tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()
    groups = find_groups(shapes)
    results = [result for factorization in searched for result in _tried(factorization, groups, shapes, config)]
    listed = tuple(factorization.name for factorization in searched if set(classes) & set(factorization.classes))
    fits = [result for result in results if isinstance(result, Fit)]
    misses = [result for result in results if isinstance(result, Miss) and result.is_near]
    done = any(fit.factorization in listed for fit in fits)
    return Suggestion(
        model=model,
        classes=classes,
        remote_code=bool(config.get("auto_map")),
        listed=listed,
        layers=tuple(group.prefix for group in groups),
        fits=tuple(sorted(fits, key=lambda fit: (fit.factorization not in listed, len(fit.unread)))),
        misses=tuple(sorted(misses, key=lambda miss: (miss.changes, -miss.names))[:NEAREST]),
        draft=draft(classes, groups[0], shapes, config, searched) if groups and not done else None,
    )


def _tried(
    factorization: Factorization, groups: Sequence[LayerGroup], shapes: Mapping[str, Shape], config: Mapping[str, Any]
) -> Iterator[Fit | Miss]:
    """The result of one factorization: under its own prefix, or under that of the largest group."""
    if not groups:
        return
    own = next(
        (
            group
            for pattern in prefixes(factorization)
            for group in groups
            if group.prefix == pattern.replace("{stage}", "0")
        ),
        None,
    )
    group = own or groups[0]
    asked, missing = asked_names(factorization, group.tensors)
    here = factorization if own else msgspec.structs.replace(factorization, layers=group.prefix)
    layout = None if missing else _bound(here, shapes, config)
    problem = layout if isinstance(layout, str) else None
    if isinstance(layout, Layout) and own:
        yield Fit(factorization.name, layout.layers, layout.width, unread(layout, shapes))
    else:
        yield Miss(factorization.name, asked, missing, None if own else group.prefix, problem)


def _bound(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Layout | str:
    """The layout, or why there is none."""
    if key := unmet(config, factorization.requires):
        return f"config.json says {key}: {_shown(setting(config, key))}, not {_shown(factorization.requires[key])}"
    try:
        return bind(factorization, shapes, config)
    except CheckpointError as error:
        return str(error)


def _shown(value: Any) -> str:
    return printable(json.dumps(value), 60)


def asked_names(factorization: Factorization, tensors: Mapping[str, Shape]) -> tuple[int, tuple[str, ...]]:
    """Return how many names a factorization asks for (of several sets those of the nearest), and which are missing."""
    names: dict[tuple[str, ...], None] = {}
    for sets in map(factorization.branches.sets, BRANCH_ROLES):
        needed = [tuple(_needed(entry)) for entry in as_sets(sets)]
        none = [()] if isinstance(sets, tuple) and None in sets else []
        names |= dict.fromkeys(min((*needed, *none), key=lambda entry: len(_absent(entry, tensors))))
    return len(names), _absent(names, tensors)


def _needed(matrices: MatrixSet) -> Iterator[tuple[str, ...]]:
    """The names of a set, each with its alternatives."""
    stored = {name: (name,) for slot in slots(matrices) for name in slot.tensors}
    yield from stored.values()
    norms: tuple[Norms, ...] = (matrices.norm, matrices.output_norm, matrices.inner_norm)
    for names in norms:
        wanted = as_names(names)
        if wanted and None not in wanted:
            yield tuple(str(name) for name in wanted)


def _absent(asked: Iterable[tuple[str, ...]], tensors: Mapping[str, Shape]) -> tuple[str, ...]:
    """The names that no layer has; only `bind` can check names beside the layers."""
    return tuple(
        " or ".join(names)
        for names in asked
        if not any("{layer}" in name or name.replace("{expert}", "0") in tensors or name in tensors for name in names)
    )
