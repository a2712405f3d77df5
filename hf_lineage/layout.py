"""Layout: a factorization bound to one checkpoint's header: how many layers, how wide, and where every matrix is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.fit import Fit
from hf_lineage.header import LayerSet, find_sets
from hf_lineage.layers import Layer, Shape, Stack, find_layers
from hf_lineage.registry import setting
from hf_lineage.schema import Factorization, as_stacks
from hf_lineage.signature import MOST_LAYERS

T = TypeVar("T")


@dataclass(frozen=True)
class Layout:
    """A factorization bound to one checkpoint's header."""

    factorization: Factorization
    widths: tuple[int, ...]
    """For each layer that of the stream which it reads and writes; 0 in a stack without any branch."""
    heads: int
    """The most query heads of any stack."""
    mlp: tuple[tuple[LayerSet, ...], ...]
    """For each layer the sets that it has."""
    attention: tuple[tuple[LayerSet, ...], ...]
    unclaimed: tuple[str, ...]
    """Matrices of the residual width inside the layers that no branch reads and `ignores` does not list."""

    @property
    def layers(self) -> int:
        """L, counted from the file."""
        return len(self.mlp)

    @property
    def width(self) -> int:
        """d, of unlike stacks the largest."""
        return max(self.widths)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths this checkpoint has, the canonical one first."""
        gated = all("gate" in found.slots for layer in self.mlp for found in layer)
        paths = ("mlp", *(["mlp_gate"] if gated else []), "value_output", "query_key")
        return tuple(path for path in paths if self.numbers(path))

    def sets(self, path: str) -> tuple[tuple[LayerSet, ...], ...]:
        """Return for each layer the sets that make a path."""
        return self.mlp if path.startswith("mlp") else self.attention

    def parts(self, path: str, number: int) -> int:
        """Return how many interchangeable parts a branch has: hidden units, or heads, of all experts."""
        return sum(found.units // found.part * math.prod(found.stacked) for found in self.sets(path)[number])

    def numbers(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the layers that have a path: all of them, unless layers are of several kinds."""
        return tuple(number for number, found in enumerate(self.sets(path)) if found)

    def only(self, layers: Collection[int]) -> Layout:
        """Return the same model as if no other layers had a branch."""
        mlp, attention = (
            tuple(sets if number in layers else () for number, sets in enumerate(kind))
            for kind in (self.mlp, self.attention)
        )
        return replace(self, mlp=mlp, attention=attention)

    def without(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the others."""
        return tuple(number for number, found in enumerate(self.sets(path)) if not found)


def bind(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Layout:
    """Return where everything is in a checkpoint with these tensor shapes.

    Raise CheckpointError where a tensor is missing or its shape does not fit the others or `config.json`,
    NothingToCompare for more layers than can be compared.
    """
    everything = find_layers(factorization, shapes)
    if len(everything) > MOST_LAYERS:
        raise NothingToCompare(
            f"the weights have {len(everything)} layers; models of at most {MOST_LAYERS} are compared"
        )
    layers = itertools.groupby(everything, key=lambda layer: layer.stack)
    stacks = [_bound(factorization, shapes, config, stack, list(own)) for stack, own in layers]
    if not any(found.width for found in stacks):
        raise CheckpointError(f"no layer has a branch that factorization {factorization.name} knows")
    return Layout(
        factorization,
        widths=_joined(found.widths for found in stacks),
        heads=max(found.heads for found in stacks),
        mlp=_joined(found.mlp for found in stacks),
        attention=_joined(found.attention for found in stacks),
        unclaimed=_joined(found.unclaimed for found in stacks),
    )


def _joined(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def _bound(
    factorization: Factorization,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    stack: Stack,
    layers: list[Layer],
) -> Layout:
    """The layout of one stack of layers."""
    mlp = [find_sets(factorization.branches.mlp, layer) for layer in layers]
    attention = [find_sets(factorization.branches.attention, layer) for layer in layers]
    heads = _heads(factorization, stack, config) if any(attention) else 0
    fit = Fit(factorization, shapes, config, heads, _width(factorization, shapes, mlp + attention))
    bound = tuple(tuple(fit.mlp(each, beside=sets) for each in sets) for sets in mlp)
    headed = tuple(tuple(fit.attention(each) for each in sets) for sets in attention)
    claimed = {name for sets in bound + headed for each in sets for name in each.tensors}
    unclaimed = (name for layer in layers for name in layer.unclaimed(fit.width, claimed, factorization.ignores))
    return Layout(factorization, (fit.width,) * len(layers), heads, bound, headed, tuple(unclaimed))


def _heads(factorization: Factorization, stack: Stack, config: Mapping[str, Any]) -> int:
    said = as_stacks(factorization.heads)
    keys = [stack.named(key) for key in said.get(stack.name) or next(iter(said.values()))]
    key = next((key for key in keys if setting(config, key) is not None), keys[0])
    heads = setting(config, key)
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise CheckpointError(f"config.json: `{key}` must be a positive integer, not {heads!r}")
    return heads


def _width(factorization: Factorization, shapes: Mapping[str, Shape], sets: list[tuple[LayerSet, ...]]) -> int:
    """How wide the stream is that the first branch writes into; 0 if there is none."""
    first = next((each for found in sets for each in found), None)
    if first is None:
        return 0
    return Fit(factorization, shapes, {}).matrix(first.slots.get("down") or first.slots["output"])[-2]
