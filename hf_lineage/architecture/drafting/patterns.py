"""Patterns: the matrix sets of all registry files, and where a layer has tensors of the same names.

A pattern is a set without the name of the module that holds all of it. It is searched under every module of a layer, so
names from the registry match in new combinations.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.registry import BRANCH_ROLES, Factorization, MatrixSet, as_sets

YamlSet = dict[str, Any]
"""A matrix set as a registry file writes it in YAML."""
KINDS = tuple(BRANCH_ROLES)
_ROLES = tuple(itertools.chain.from_iterable(BRANCH_ROLES.values()))
_KEYS = ("packed", "blocks", "interleaved", "latent")
"""Other keys of a set about its matrices; norms are guessed separately, and sizes tell the orientation."""


@dataclass
class Pattern:
    """The names of a matrix set, relative to the module that holds all of them."""

    kind: str
    yaml_set: YamlSet
    homes: Counter[str] = field(default_factory=Counter)
    """The modules under which registry files have it."""


@dataclass(frozen=True)
class Candidate:
    """A pattern with a module of a layer that it matches."""

    kind: str
    yaml_set: YamlSet
    names: frozenset[str]
    rank: tuple[int, int, int]
    """Number of tensors, whether a registry file has exactly these names, number of files with the pattern."""


def patterns(registry: Iterable[Factorization]) -> list[Pattern]:
    """Return every pattern of the registry once; a set spread over several stacks makes none."""
    patterns_by_set: dict[str, Pattern] = {}
    for factorization in registry:
        for kind in KINDS:
            for matrices in as_sets(factorization.branches.sets(kind)):
                plain = _as_yaml(matrices)
                home = _common_module(names(plain))
                yaml_set = _renamed(plain, home, "")
                if "{layer}" not in str(yaml_set):
                    patterns_by_set.setdefault(f"{kind}{yaml_set}", Pattern(kind, yaml_set)).homes[home] += 1
    return list(patterns_by_set.values())


def candidates(
    free: Mapping[str, Shape], layer: Mapping[str, Shape], width: int, patterns: Sequence[Pattern]
) -> Iterator[Candidate]:
    """Yield the places where free matrices of a layer have the names of a pattern and sizes that fit together."""
    modules: dict[str, list[str]] = defaultdict(list)
    for name in free:
        parts = name.split(".")
        for cut in range(len(parts)):
            modules[".".join(parts[cut:])].append(".".join(parts[:cut]))
    for pattern in patterns:
        for module in modules.get(names(pattern.yaml_set)[0], ()):
            yaml_set = _renamed(pattern.yaml_set, "", module)
            tensors = [name for name in names(yaml_set) if name in free]
            if all(name in layer for name in names(yaml_set)) and _sizes_agree(pattern.kind, yaml_set, free, width):
                rank = (len(tensors), int(module in pattern.homes), pattern.homes.total())
                yield Candidate(pattern.kind, yaml_set, frozenset(tensors), rank)


def names(yaml_set: YamlSet) -> list[str]:
    """Return every tensor that a set names, without its norms, each once."""
    roles = [yaml_set[role] for role in _ROLES if role in yaml_set]
    packed = [name for key in ("packed", "interleaved") for name in yaml_set.get(key, {})]
    latent = [name for pair in yaml_set.get("latent", {}).values() for name in pair]
    return list(dict.fromkeys((*roles, *packed, *latent)))


def _as_yaml(matrices: MatrixSet) -> YamlSet:
    default = MatrixSet()
    return {key: value for key in (*_ROLES, *_KEYS) if (value := getattr(matrices, key)) != getattr(default, key)}


def _common_module(tensors: Iterable[str]) -> str:
    modules = [name.split(".")[:-1] for name in tensors]
    same = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*modules, strict=False))
    return ".".join(parts[0] for parts in same)


def _renamed(yaml_set: YamlSet, old: str, new: str) -> YamlSet:
    """The same set under another module."""

    def rename(name: str) -> str:
        return ".".join(part for part in (new, name.removeprefix(old).removeprefix(".")) if part)

    def renamed(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return rename(value)
        if not isinstance(value, dict):
            return value
        tensors = key == "latent"  # the others list roles
        return {rename(name): [rename(n) if tensors else n for n in entries] for name, entries in value.items()}

    return {key: renamed(key, value) for key, value in yaml_set.items()}


def _sizes_agree(kind: str, yaml_set: YamlSet, free: Mapping[str, Shape], width: int) -> bool:
    """Whether matrices on the stream have its width, and those of an MLP the same number of hidden units per role."""
    stored = [yaml_set[role] for role in _ROLES if role in yaml_set]
    packed = {name: len(roles) for key in ("packed", "interleaved") for name, roles in yaml_set.get(key, {}).items()}
    direct = [name for name in (*stored, *packed) if name not in yaml_set.get("latent", {})]
    if not all(name in free and width in free[name] for name in direct):
        return False
    units = {math.prod(free[name][-2:]) / packed.get(name, 1) for name in direct}
    return kind != "mlp" or len(units) == 1
