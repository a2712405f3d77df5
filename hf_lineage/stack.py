"""Stack: the repeated layers of a header, found by their numbers alone, before any factorization is known."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hf_lineage.layers import Shape

KINDS = 8
"""How many kinds of layers are looked at; a real model has two or three."""
_PLAIN = re.compile(r"[\w.-]{1,200}", re.ASCII)
"""Names that can stand in a registry file as they are; what a stranger wrote otherwise is only shown, escaped."""
BIASES = ("bias", "beta")
"""How names of vectors end that are added, not multiplied with."""
_NUMBER = re.compile(r"(?:(?<=\.)|^)\d{1,6}(?=\.|$)")


@dataclass(frozen=True)
class Stack:
    """The layers under one prefix."""

    prefix: str
    """With `{layer}`, as a registry file says it."""
    depth: int
    kinds: tuple[Mapping[str, Shape], ...]
    """What unlike layers hold: name relative to the layer, without `.weight`, `{expert}` for experts' numbers -> shape
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


def stacks(shapes: Mapping[str, Shape]) -> tuple[Stack, ...]:
    """Return the stacks of layers, numbered from 0 without a gap, the one with the most matrices first.

    What has one number only is a layer where nothing has two.

    >>> shapes = {f"h.{n}.mlp.{k}.{role}.weight": (4, 4) for n in range(2) for k in range(3) for role in ("up", "down")}
    >>> [(found.prefix, found.depth, list(found.tensors)) for found in stacks(shapes)]
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
        where = next((each for each in _numbers(name) if each[0] in repeated and each[2]), None)
        if where is not None:
            start, number, rest = where
            layers[start][number][rest] = shapes[name]
    found = sorted(layers.items(), key=lambda each: -sum(map(_matrices, each[1].values())))
    return tuple(_stack(start, numbered) for start, numbered in found)


def _numbers(name: str) -> Iterator[tuple[str, int, str]]:
    """What stands before, in and after every number of a name, the outermost first."""
    bare = name.removesuffix(".weight")
    for match in _NUMBER.finditer(bare):
        yield bare[: match.start()], int(match[0]), bare[match.end() + 1 :]


def _matrices(layer: Mapping[str, Shape]) -> int:
    return sum(len(shape) in (2, 3) for shape in layer.values())


def _stack(start: str, numbered: Mapping[int, Mapping[str, Shape]]) -> Stack:
    kinds: dict[tuple[tuple[str, Shape], ...], None] = {}
    for _, layer in sorted(numbered.items()):
        kinds.setdefault(tuple(_experts_as_one(layer).items()))
    return Stack(f"{start}{{layer}}", len(numbered), tuple(dict(kind) for kind in list(kinds)[:KINDS]))


def _experts_as_one(layer: Mapping[str, Shape]) -> dict[str, Shape]:
    """The tensors of a layer, `{expert}` for a number under which the same shapes stand as under its siblings."""
    under: dict[str, dict[int, dict[str, Shape]]] = defaultdict(lambda: defaultdict(dict))
    for name, shape in layer.items():
        for start, number, rest in _numbers(name):
            under[start][number][rest] = shape
    alike = {
        start
        for start, numbered in under.items()
        if len(numbered) > 1 and len({frozenset(each.items()) for each in numbered.values()}) == 1
    }
    spelled = {}
    for name, shape in layer.items():
        where = next((each for each in _numbers(name) if each[0] in alike), None)
        spelled[f"{where[0]}{{expert}}.{where[2]}".removesuffix(".") if where else name] = shape
    return spelled
