"""Layer groups: the repeated layers of a header, recognised by their numbers alone, without a factorization."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hf_lineage.architecture.layers import Shape

KINDS = 8
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
    """With `{layer}`, as a registry file says it."""
    depth: int
    kinds: tuple[Mapping[str, Shape], ...]
    """The tensors of each kind of layer: name in the layer, without `.weight`, `{expert}` for an expert's number ->
    shape as stored."""

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
    """The text before, the value of, and the text after every number in a name, the outermost number first."""
    bare = name.removesuffix(".weight")
    for match in _NUMBER.finditer(bare):
        yield bare[: match.start()], int(match[0]), bare[match.end() + 1 :]


def _matrices(layer: Mapping[str, Shape]) -> int:
    return sum(len(shape) in (2, 3) for shape in layer.values())


def _group(start: str, numbered: Mapping[int, Mapping[str, Shape]]) -> LayerGroup:
    kinds: dict[tuple[tuple[str, Shape], ...], None] = {}
    for _, layer in sorted(numbered.items()):
        kinds.setdefault(tuple(_experts_as_one(layer).items()))
    return LayerGroup(f"{start}{{layer}}", len(numbered), tuple(dict(kind) for kind in list(kinds)[:KINDS]))


def _experts_as_one(layer: Mapping[str, Shape]) -> dict[str, Shape]:
    """The tensors of a layer, with `{expert}` for numbers under which all siblings have the same shapes."""
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
