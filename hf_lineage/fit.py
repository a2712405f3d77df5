"""Fit: the shapes of a checkpoint held against each other and against `config.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.activity import activation
from hf_lineage.errors import CheckpointError
from hf_lineage.header import Heads, LayerSet
from hf_lineage.layers import KERNEL, Shape
from hf_lineage.registry import Slot, setting
from hf_lineage.schema import Factorization

QUERIES = ("query", "gate")
"""Roles of attention with as many heads as there are queries; keys and values may be fewer."""


def turned(factorization: Factorization, slot: Slot) -> bool:
    """Return whether a matrix is stored as (..., in, out)."""
    return slot.transposed != (factorization.stored == "in_out")


@dataclass(frozen=True)
class Fit:
    """The shapes of a checkpoint held against each other; CheckpointError where they do not fit."""

    factorization: Factorization
    shapes: Mapping[str, Shape]
    config: Mapping[str, Any]
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

    def mlp(self, found: LayerSet, beside: Sequence[LayerSet] = ()) -> LayerSet:
        """Return the set with its hidden units; its writer is (..., width, hidden), its readers the other way round.

        `beside` are all sets of the layer, among which are those of the other experts.
        """
        *experts, _, hidden = self.matrix(found.slots["down"])
        for role, slot in found.slots.items():
            rows, columns = (self.width, hidden) if role == "down" else (hidden * len(slot.roles), self._read(slot))
            self.expect(slot, (*experts, rows, columns))
            if role != "down" and slot.tensor in found.biases:
                self._hold({found.biases[slot.tensor]: (*experts, rows)})
        if found.router:
            self._routes(found, math.prod(experts) if experts else sum(each.router == found.router for each in beside))
        fitted = self._fitted(found, dict.fromkeys(found.slots, Heads(hidden, 1)), hidden, experts)
        return replace(
            fitted,
            activation=activation(found.activations, self.config),
            routed=self._routed(found),
        )

    def _routes(self, found: LayerSet, experts: int) -> None:
        """Raise unless a router has a row for each expert, and perhaps for some that compute nothing."""
        router = found.router or ""
        rows, *across = self.shapes[router] or (0,)
        if across != [self.width] or rows < experts:
            asked = (experts, self.width)
            raise CheckpointError(
                f"{router} has shape {self.shapes[router]}, the rest of the model asks for {asked} (out, in)"
            )
        for name in (found.biases.get(router), found.correction):
            if name is not None and math.prod(self.shapes[name]) != rows:
                raise CheckpointError(f"{name} has shape {self.shapes[name]}, its router asks for {(rows,)}")

    def _routed(self, found: LayerSet) -> int | None:
        """How many experts a token is sent to; None where there is no router."""
        counts = [count for key in found.routed_by if (count := setting(self.config, key)) is not None]
        if found.router is None or not counts:
            return None
        if type(counts[0]) is not int or counts[0] < 1:
            raise CheckpointError(f"config.json: `{found.routed_by[0]}` must be a positive integer, not {counts[0]!r}")
        return counts[0]

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
        norms |= {found.fed_by: self.width} if found.fed_by else {}
        sizes: dict[str, Shape] = {name: (size,) for name, size in norms.items() if name}
        sizes |= {variance: self.shapes[norm] for norm, variance in found.variances.items()}
        sizes |= {bias: sizes[norm] for norm, bias in found.biases.items() if norm in sizes}
        self._hold(sizes)
        return replace(found, heads=heads, stacked=tuple(experts), width=self.width)

    def _hold(self, sizes: Mapping[str, Shape]) -> None:
        """Raise unless tensors have these shapes."""
        for name, shape in sizes.items():
            if self.shapes[name] != shape:
                raise CheckpointError(
                    f"{name} has shape {self.shapes[name]}, the rest of the model asks for {shape} (out, in)"
                )
