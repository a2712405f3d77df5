"""Patterns: the matrix sets of all registry files, and the places where a layer has tensors of the same names.

A pattern is a set without the name of the module that holds all of it. It is searched under every module of a layer, so
names from the registry match in new combinations. The repeated layers of a header are found by their numbers alone,
without a factorization.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, MatrixSet, as_sets

MOST_KINDS = 8
"""Kinds of layers that are considered at most; a real model has two or three."""
_PLAIN = re.compile(r"[\w.-]{1,200}", re.ASCII)
"""Names that can be written into a registry file; any other name is untrusted input, shown only in escaped form."""
BIASES = ("bias", "beta")
"""Endings of the names of vectors that are added and not multiplied with."""
_NUMBER = re.compile(r"(?:(?<=\.)|^)\d{1,6}(?=\.|$)")


@dataclass(frozen=True)
class LayerGroup:
    """The layers under one prefix."""

    prefix: str
    """The prefix with `{layer}`, as a registry file has it."""
    depth: int
    kinds: tuple[Mapping[str, Shape], ...]
    """For each kind of layer: name of a tensor, without `.weight` and with `{expert}` for an expert's number -> shape
    as stored."""

    @functools.cached_property
    def tensors(self) -> dict[str, Shape]:
        """Everything that some layer holds."""
        return {name: shape for kind in reversed(self.kinds) for name, shape in kind.items()}

    @functools.cached_property
    def width(self) -> int:
        """The residual width: the size that most matrices share, of several the one of most vectors; 0 without any."""
        shapes = self.tensors.values()
        vectors = Counter(shape[0] for shape in shapes if len(shape) == 1)
        sizes = Counter(size for shape in shapes if len(shape) in (2, 3) for size in set(shape))
        return max(sizes, key=lambda size: (sizes[size], vectors[size]), default=0)

    @functools.cached_property
    def gains(self) -> list[str]:
        """Vectors of the residual width that are no bias and no expert's own."""
        vectors = (name for name, shape in self.tensors.items() if shape == (self.width,))
        return [name for name in vectors if not name.endswith(BIASES) and "{expert}" not in name]


def find_groups(shapes: Mapping[str, Shape]) -> tuple[LayerGroup, ...]:
    """Return the groups of layers, numbered from 0 without a gap, the one with the most matrices first.

    A prefix with a single number counts as a layer only if no prefix has several.

    >>> shapes = {f"h.{n}.mlp.{k}.{role}.weight": (4, 4) for n in range(2) for k in range(3) for role in ("up", "down")}
    >>> [(group.prefix, group.depth, list(group.tensors)) for group in find_groups(shapes)]
    [('h.{layer}', 2, ['mlp.{expert}.up', 'mlp.{expert}.down'])]
    """
    plain = [name for name in shapes if _PLAIN.fullmatch(name)]
    seen: dict[str, set[int]] = defaultdict(set)
    for name in plain:
        for start, number, _ in _numbers(name):
            seen[start].add(number)
    gapless = {start: len(numbers) for start, numbers in seen.items() if len(numbers) == max(numbers) + 1}
    repeated = {start for start, count in gapless.items() if count > 1} or set(gapless)
    layers: dict[str, dict[int, dict[str, Shape]]] = defaultdict(lambda: defaultdict(dict))
    for name in plain:
        where = next((entry for entry in _numbers(name) if entry[0] in repeated and entry[2]), None)
        if where is not None:
            start, number, rest = where
            layers[start][number][rest] = shapes[name]
    groups = sorted(layers.items(), key=lambda entry: -sum(map(_matrices, entry[1].values())))
    return tuple(_group(start, numbered) for start, numbered in groups)


def _numbers(name: str) -> Iterator[tuple[str, int, str]]:
    """Yield the text before, the value of, and the text after every number in a name, the outermost number first."""
    bare = name.removesuffix(".weight")
    for match in _NUMBER.finditer(bare):
        yield bare[: match.start()], int(match[0]), bare[match.end() + 1 :]


def _matrices(layer: Mapping[str, Shape]) -> int:
    return sum(len(shape) in (2, 3) for shape in layer.values())


def _group(start: str, numbered: Mapping[int, Mapping[str, Shape]]) -> LayerGroup:
    kinds: dict[tuple[tuple[str, Shape], ...], None] = {}
    for _, layer in sorted(numbered.items()):
        kinds.setdefault(tuple(_experts_as_one(layer).items()))
    return LayerGroup(f"{start}{{layer}}", len(numbered), tuple(dict(kind) for kind in list(kinds)[:MOST_KINDS]))


def _experts_as_one(layer: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return the tensors of a layer, with `{expert}` for numbers under which all siblings have the same shapes."""
    under: dict[str, dict[int, dict[str, Shape]]] = defaultdict(lambda: defaultdict(dict))
    for name, shape in layer.items():
        for start, number, rest in _numbers(name):
            under[start][number][rest] = shape
    alike = {
        start
        for start, numbered in under.items()
        if len(numbered) > 1 and len({frozenset(entry.items()) for entry in numbered.values()}) == 1
    }
    spelled = {}
    for name, shape in layer.items():
        where = next((entry for entry in _numbers(name) if entry[0] in alike), None)
        spelled[f"{where[0]}{{expert}}.{where[2]}".removesuffix(".") if where else name] = shape
    return spelled


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
                named = {key: getattr(matrices, key) for key in (*_ROLES, *_KEYS)}
                plain = {key: value for key, value in named.items() if value != getattr(MatrixSet(), key)}
                modules = zip(*(name.split(".")[:-1] for name in names(plain)), strict=False)
                home = ".".join(parts[0] for parts in itertools.takewhile(lambda parts: len({*parts}) == 1, modules))
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


def _renamed(yaml_set: YamlSet, old: str, new: str) -> YamlSet:
    """Return the same set under another module."""

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
    """Return whether matrices on the stream have its width, and each role of an MLP as many hidden units."""
    stored = [yaml_set[role] for role in _ROLES if role in yaml_set]
    packed = {name: len(roles) for key in ("packed", "interleaved") for name, roles in yaml_set.get(key, {}).items()}
    direct = [name for name in (*stored, *packed) if name not in yaml_set.get("latent", {})]
    if not all(name in free and width in free[name] for name in direct):
        return False
    units = {math.prod(free[name][-2:]) / packed.get(name, 1) for name in direct}
    return kind != "mlp" or len(units) == 1
