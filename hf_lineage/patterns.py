"""Patterns: the matrix sets of all registry files, and where the tensors of a layer have the same names.

A pattern is a set without the module that holds all of it; it is looked for under every module of a layer, so known
names are found in any new combination.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.layers import Shape
from hf_lineage.schema import ATTENTION_ROLES, MLP_ROLES, Factorization, MatrixSet, as_sets

Said = dict[str, Any]
"""A matrix set as YAML says it."""
KINDS = ("mlp", "attention")
_ROLES = tuple(dict.fromkeys((*MLP_ROLES, *ATTENTION_ROLES)))
_KEYS = ("packed", "blocks", "interleaved", "latent")
"""What else a set says of its matrices; norms are guessed apart, and sizes tell which way it is stored."""


@dataclass
class Pattern:
    """The names of a matrix set, relative to the module that holds all of them."""

    kind: str
    said: Said
    homes: Counter[str] = field(default_factory=Counter)
    """The modules under which registry files have it."""


@dataclass(frozen=True)
class Candidate:
    """A pattern found under some module of a layer."""

    kind: str
    said: Said
    names: frozenset[str]
    rank: tuple[int, int, int]
    """How many tensors, whether a file has just these names, how many files have the pattern."""


def patterns(known: Iterable[Factorization]) -> list[Pattern]:
    """Return every pattern of the registry once; a set spread over several stacks makes none."""
    found: dict[str, Pattern] = {}
    for factorization in known:
        for kind in KINDS:
            for matrices in as_sets(getattr(factorization.branches, kind)):
                plain = _said(matrices)
                home = _common_module(names(plain))
                said = _renamed(plain, home, "")
                if "{layer}" not in str(said):
                    found.setdefault(f"{kind}{said}", Pattern(kind, said)).homes[home] += 1
    return list(found.values())


def candidates(
    free: Mapping[str, Shape], layer: Mapping[str, Shape], width: int, known: Sequence[Pattern]
) -> Iterator[Candidate]:
    """Yield where the free matrices of a layer are called as in a pattern and have sizes that could go together."""
    modules: dict[str, list[str]] = defaultdict(list)
    for name in free:
        parts = name.split(".")
        for cut in range(len(parts)):
            modules[".".join(parts[cut:])].append(".".join(parts[:cut]))
    for pattern in known:
        for module in modules.get(names(pattern.said)[0], ()):
            said = _renamed(pattern.said, "", module)
            found = [name for name in names(said) if name in free]
            if all(name in layer for name in names(said)) and _sizes_agree(pattern.kind, said, free, width):
                rank = (len(found), int(module in pattern.homes), pattern.homes.total())
                yield Candidate(pattern.kind, said, frozenset(found), rank)


def names(said: Said) -> list[str]:
    """Return every tensor that a set names, without its norms, each once."""
    roles = [said[role] for role in _ROLES if role in said]
    packed = [name for key in ("packed", "interleaved") for name in said.get(key, {})]
    latent = [name for pair in said.get("latent", {}).values() for name in pair]
    return list(dict.fromkeys((*roles, *packed, *latent)))


def _said(matrices: MatrixSet) -> Said:
    default = MatrixSet()
    return {key: value for key in (*_ROLES, *_KEYS) if (value := getattr(matrices, key)) != getattr(default, key)}


def _common_module(tensors: Iterable[str]) -> str:
    modules = [name.split(".")[:-1] for name in tensors]
    same = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*modules, strict=False))
    return ".".join(parts[0] for parts in same)


def _renamed(said: Said, old: str, new: str) -> Said:
    """The same set under another module."""

    def rename(name: str) -> str:
        return ".".join(part for part in (new, name.removeprefix(old).removeprefix(".")) if part)

    def renamed(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return rename(value)
        if not isinstance(value, dict):
            return value
        tensors = key == "latent"  # the others list roles
        return {rename(name): [rename(n) if tensors else n for n in each] for name, each in value.items()}

    return {key: renamed(key, value) for key, value in said.items()}


def _sizes_agree(kind: str, said: Said, free: Mapping[str, Shape], width: int) -> bool:
    """Whether what meets the stream has its width, and an MLP's tensors as many hidden units for each role."""
    stored = [said[role] for role in _ROLES if role in said]
    packed = {name: len(roles) for key in ("packed", "interleaved") for name, roles in said.get(key, {}).items()}
    direct = [name for name in (*stored, *packed) if name not in said.get("latent", {})]
    if not all(name in free and width in free[name] for name in direct):
        return False
    units = {math.prod(free[name][-2:]) / packed.get(name, 1) for name in direct}
    return kind != "mlp" or len(units) == 1
