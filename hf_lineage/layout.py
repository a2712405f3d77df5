"""Layout: a factorization bound to one checkpoint's header: how many layers, how wide, and where every matrix is."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.header import KERNEL, Heads, Layer, LayerSet, Shape, Stack, find_layers, find_sets
from hf_lineage.registry import Factorization, Slot, as_stacks, setting
from hf_lineage.signature import MOST_LAYERS

T = TypeVar("T")
QUERIES = ("query", "gate")
"""Roles of attention with as many heads as there are queries; keys and values may be fewer."""


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
    fit = _Fit(factorization, shapes, heads, _width(factorization, shapes, mlp + attention))
    bound = tuple(tuple(fit.mlp(each) for each in sets) for sets in mlp)
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
    return _Fit(factorization, shapes).matrix(first.slots.get("down") or first.slots["output"])[-2]


def turned(factorization: Factorization, slot: Slot) -> bool:
    """Return whether a matrix is stored as (..., in, out)."""
    return slot.transposed != (factorization.stored == "in_out")


@dataclass(frozen=True)
class _Fit:
    """The shapes of a checkpoint held against each other; CheckpointError where they do not fit."""

    factorization: Factorization
    shapes: Mapping[str, Shape]
    heads: int = 1
    width: int = 0

    def shape(self, slot: Slot, name: str | None = None) -> Shape:
        """Return the shape of a slot's tensor, or of its latent one, as (..., out, in)."""
        shape = self.shapes[name or slot.tensor]
        shape = shape[:2] if len(shape) == KERNEL else shape
        return (*shape[:-2], *shape[:-3:-1]) if turned(self.factorization, slot) and len(shape) >= 2 else shape

    def matrix(self, slot: Slot, name: str | None = None) -> Shape:
        """Return the shape of a matrix, or of a stack of them."""
        shape = self.shape(slot, name)
        if len(shape) not in (2, 3) or 0 in shape:
            raise CheckpointError(f"{name or slot.tensor} has shape {shape}, which is no matrix")
        return shape

    def expect(self, slot: Slot, shape: Shape, name: str | None = None) -> None:
        """Raise unless a slot's tensor, or its latent one, has this shape."""
        found = self.shape(slot, name)
        if found != shape:
            raise CheckpointError(
                f"{name or slot.tensor} has shape {found}, the rest of the model asks for {shape} (out, in)"
            )

    def mlp(self, found: LayerSet) -> LayerSet:
        """Return the set with its hidden units; its writer is (..., width, hidden), its readers the other way round."""
        *experts, _, hidden = self.matrix(found.slots["down"])
        for role, slot in found.slots.items():
            rows, columns = (self.width, hidden) if role == "down" else (hidden * len(slot.roles), self._read(slot))
            self.expect(slot, (*experts, rows, columns))
        return self._fitted(found, dict.fromkeys(found.slots, Heads(hidden, 1)), hidden, experts)

    def attention(self, found: LayerSet) -> LayerSet:
        """Return the set with its heads; writers are (..., width, heads x size), readers (..., heads x size, width)."""
        output = found.slots["output"]
        *experts, _, across = self.matrix(output)
        self.expect(output, (*experts, self.width, across))
        value = self._size(output, across)
        sizes = {"query": value, "gate": value, "value": value}
        for role in QUERIES:
            slot = found.slots.get(role)
            if slot and slot.roles == (role,):
                sizes[role] = self._size(slot, self.matrix(slot)[-2])
        sizes["key"] = sizes["query"] - self._shared(found.slots["key"])
        readers = {role: slot for role, slot in found.slots.items() if role != "output"}
        heads = {role: self._counted(slot, role, sizes, experts) for role, slot in readers.items()}
        keys = heads["key"].count
        if keys != heads["value"].count or not keys or self.heads % keys:
            said = ", ".join(f"{each.count} {role}" for role, each in heads.items())
            raise CheckpointError(
                f"{output.tensor}: {said} heads do not line up with the {self.heads} heads of config.json"
            )
        return self._fitted(found, heads, across, experts)

    def _size(self, slot: Slot, rows: int) -> int:
        """How many of so many rows each of the heads has."""
        size, rest = divmod(rows, self.heads)
        if rest or not size:
            raise CheckpointError(
                f"{slot.tensor} has shape {self.shape(slot)} (out, in), which {self.heads} heads do not make"
            )
        return size

    def _shared(self, key: Slot) -> int:
        """How many rows of a latent key all heads share: those that the way through the latent does not read."""
        if not key.latent:
            return 0
        return max(self.matrix(key, key.latent[0])[-2] - self.matrix(key)[-1], 0)

    def _counted(self, slot: Slot, role: str, sizes: Mapping[str, int], experts: list[int]) -> Heads:
        """The heads of a role; keys and values are equally many."""
        rows = self.matrix(slot)[-2]
        fixed = self.heads * sum(sizes[each] for each in slot.roles if each in QUERIES)
        each = sum(sizes[each] for each in slot.roles if each not in QUERIES)
        count = (rows - fixed) // each if each > 0 else 0
        stacked = experts if set(slot.roles) <= set(QUERIES) else []
        self.expect(slot, (*stacked, fixed + count * each, self._read(slot)))
        return Heads(self.heads if role in QUERIES else count, sizes[role])

    def _read(self, slot: Slot) -> int:
        """How wide what a reader reads is: the stream, or the latent, which has to be made from the stream."""
        if not slot.latent:
            return self.width
        (reader, norm), columns = slot.latent, self.matrix(slot)[-1]
        self.expect(slot, (columns + (self._shared(slot) if "key" in slot.roles else 0), self.width), reader)
        self.expect(slot, (columns,), norm)
        return columns

    def _fitted(self, found: LayerSet, heads: Mapping[str, Heads], hidden: int, experts: list[int]) -> LayerSet:
        """The set with what its shapes say, those of its norms held against them too."""
        norms = {found.norm: self.width, found.output_norm: self.width, found.inner_norm: hidden}
        sizes: dict[str, Shape] = {name: (size,) for name, size in norms.items() if name}
        sizes |= {variance: self.shapes[norm] for norm, variance in found.variances.items()}
        for name, shape in sizes.items():
            if self.shapes[name] != shape:
                raise CheckpointError(
                    f"{name} has shape {self.shapes[name]}, the rest of the model asks for {shape} (out, in)"
                )
        return replace(found, heads=heads, stacked=tuple(experts), width=self.width)
