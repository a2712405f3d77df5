"""Suggestion: what the registry could make of a model that nobody has listed; never a verdict, and never used for one.

A fit says that names and shapes agree. Whether a branch computes what its file says is proved on the real module, by
the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hf_lineage.draft import Draft, draft, unread
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.layers import Shape
from hf_lineage.layout import Layout, bind
from hf_lineage.registry import factorizations, setting, slots, unmet
from hf_lineage.schema import Factorization, MatrixSet, Norms, as_names, as_sets, prefixes
from hf_lineage.stack import Stack, stacks

NEAREST = 5
"""How many near misses are told."""


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
    """A factorization that does not bind, and what would have to be otherwise."""

    factorization: str
    names: int
    """How many names it asks for."""
    missing: tuple[str, ...]
    """Those that no layer has, relative to the layer."""
    layers: str | None
    """The prefix that the layers have in place of those that it knows."""
    problem: str | None
    """Where every name is there: what does not fit."""

    @property
    def changes(self) -> int:
        """How much would have to change."""
        return len(self.missing) + (self.layers is not None) + (self.problem is not None)

    @property
    def is_near(self) -> bool:
        """Whether half of its names are there, or more."""
        return 0 < self.names >= 2 * len(self.missing)


@dataclass(frozen=True)
class Suggestion:
    """What the registry could make of one model."""

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
    """What leaves least unread first."""
    misses: tuple[Miss, ...]
    """The nearest first."""
    draft: Draft | None
    """None where one that lists the class fits already, or no layers are found."""


def survey(
    model: str,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    registry: Sequence[Factorization] | None = None,
) -> Suggestion:
    """Return which factorizations a header fits, which it nearly fits, and a draft of a new one."""
    known = factorizations() if registry is None else registry
    named = config.get("architectures")
    classes = tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()
    found = stacks(shapes)
    results = [result for each in known for result in _tried(each, found, shapes, config)]
    listed = tuple(each.name for each in known if set(classes) & set(each.classes))
    fits = [result for result in results if isinstance(result, Fit)]
    misses = [result for result in results if isinstance(result, Miss) and result.is_near]
    done = any(fit.factorization in listed for fit in fits)
    return Suggestion(
        model=model,
        classes=classes,
        remote_code=bool(config.get("auto_map")),
        listed=listed,
        layers=tuple(stack.prefix for stack in found),
        fits=tuple(sorted(fits, key=lambda fit: (fit.factorization not in listed, len(fit.unread)))),
        misses=tuple(sorted(misses, key=lambda miss: (miss.changes, -miss.names))[:NEAREST]),
        draft=draft(classes, found[0], shapes, config, known) if found and not done else None,
    )


def _tried(
    known: Factorization, found: Sequence[Stack], shapes: Mapping[str, Shape], config: Mapping[str, Any]
) -> Iterator[Fit | Miss]:
    """What becomes of one factorization: under its own prefix, or under that of the largest stack."""
    if not found:
        return
    own = next(
        (stack for pattern in prefixes(known) for stack in found if stack.prefix == pattern.replace("{stage}", "0")),
        None,
    )
    stack = own or found[0]
    asked, missing = _asked(known, stack.tensors)
    here = known if own else msgspec.structs.replace(known, layers=stack.prefix)
    layout = None if missing else _bound(here, shapes, config)
    problem = layout if isinstance(layout, str) else None
    if isinstance(layout, Layout) and own:
        yield Fit(known.name, layout.layers, layout.width, unread(layout, shapes))
    else:
        yield Miss(known.name, asked, missing, None if own else stack.prefix, problem)


def _bound(known: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Layout | str:
    """The layout, or why there is none."""
    if key := unmet(config, known.requires):
        return f"config.json says {key}: {_shown(setting(config, key))}, not {_shown(known.requires[key])}"
    try:
        return bind(known, shapes, config)
    except CheckpointError as error:
        return str(error)


def _shown(value: Any) -> str:
    return printable(json.dumps(value), 60)


def _asked(known: Factorization, tensors: Mapping[str, Shape]) -> tuple[int, tuple[str, ...]]:
    """How many names a factorization asks for, of several sets those of the nearest, and which are not there."""
    names: dict[tuple[str, ...], None] = {}
    for sets in (known.branches.mlp, known.branches.attention):
        needed = [tuple(_needed(each)) for each in as_sets(sets)]
        none = [()] if isinstance(sets, tuple) and None in sets else []
        names |= dict.fromkeys(min((*needed, *none), key=lambda each: len(_absent(each, tensors))))
    return len(names), _absent(names, tensors)


def _needed(matrices: MatrixSet) -> Iterator[tuple[str, ...]]:
    """The names of a set, each with those that would do in its place."""
    stored = {name: (name,) for slot in slots(matrices) for name in slot.tensors}
    yield from stored.values()
    norms: tuple[Norms, ...] = (matrices.norm, matrices.output_norm, matrices.inner_norm)
    for names in norms:
        wanted = as_names(names)
        if wanted and None not in wanted:
            yield tuple(str(name) for name in wanted)


def _absent(asked: Iterable[tuple[str, ...]], tensors: Mapping[str, Shape]) -> tuple[str, ...]:
    """Which names no layer has; whether those that stand beside the layers are there only `bind` can tell."""
    return tuple(
        " or ".join(names)
        for names in asked
        if not any("{layer}" in name or name.replace("{expert}", "0") in tensors or name in tensors for name in names)
    )
