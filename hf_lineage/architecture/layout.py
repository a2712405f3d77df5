"""Layout: a factorization bound to a checkpoint's header, its shapes checked against each other and `config.json`."""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.architecture.layers import KERNEL, Heads, LayerSet, Shape, Stack, find_layers, find_sets
from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.registry import Slot, setting
from hf_lineage.architecture.schema import BRANCH_ROLES, MOST_LAYERS, Factorization
from hf_lineage.errors import CheckpointError, NothingToCompare

QUERIES = ("query", "gate")  # Roles of attention with as many heads as there are queries; keys and values may be fewer
Sets = tuple[tuple[LayerSet, ...], ...]


def is_transposed(factorization: Factorization, slot: Slot) -> bool:
    """Return whether a matrix is stored as (..., in, out)."""
    return slot.transposed != (factorization.stored == "in_out")


@dataclass(frozen=True)
class Fit:
    """The shapes of a checkpoint, checked against each other; CheckpointError where they do not fit."""

    factorization: Factorization
    shapes: Mapping[str, Shape]
    heads: int = 1
    width: int = 0

    def shape(self, slot: Slot, name: str | None = None) -> Shape:
        """Return the shape of a slot's tensor, or of its latent one, as (..., out, in)."""
        shape = self.shapes[name or slot.tensor]
        shape = shape[:2] if len(shape) == KERNEL else shape
        return (*shape[:-2], *shape[:-3:-1]) if is_transposed(self.factorization, slot) and len(shape) >= 2 else shape

    def matrix(self, slot: Slot, name: str | None = None) -> Shape:
        """Return the shape of a matrix, or of a stack of them."""
        shape = self.shape(slot, name)
        if len(shape) not in (2, 3) or 0 in shape:
            raise CheckpointError(f"{name or slot.tensor} has shape {shape}, which is not the shape of a matrix")
        return shape

    def expect(self, slot: Slot, shape: Shape, name: str | None = None) -> None:
        """Raise unless a slot's tensor, or its latent one, has this shape."""
        self._same(name or slot.tensor, self.shape(slot, name), shape)

    def _same(self, name: str, actual: Shape, shape: Shape) -> None:
        if actual != shape:
            raise CheckpointError(f"{name} has shape {actual}, but the rest of the model needs {shape} (out, in)")

    def mlp(self, layer_set: LayerSet) -> LayerSet:
        """Return the set with its hidden units; a writer is (..., width, hidden), a reader (..., hidden, width)."""
        *experts, _, hidden = self.matrix(layer_set.slots["down"])
        for role, slot in layer_set.slots.items():
            if role == "down":
                self.expect(slot, (*experts, self.width, hidden))
                continue
            rows = hidden * len(slot.roles)
            self.expect(slot, (*experts, rows, self._input_width(slot)))
            if bias := layer_set.biases.get(slot.tensor):
                self._same(bias, self.shapes[bias], (*experts, rows))
        return self._complete(layer_set, dict.fromkeys(layer_set.slots, Heads(hidden, 1)), hidden, experts)

    def attention(self, layer_set: LayerSet) -> LayerSet:
        """Return the set with its heads; writers are (..., width, heads x size), readers (..., heads x size, width)."""
        output = layer_set.slots["output"]
        *experts, _, across = self.matrix(output)
        self.expect(output, (*experts, self.width, across))
        value = self._size(output, across)
        sizes = {"query": value, "gate": value, "value": value}
        for role in QUERIES:
            slot = layer_set.slots.get(role)
            if slot and slot.roles == (role,):
                sizes[role] = self._size(slot, self.matrix(slot)[-2])
        sizes["key"] = sizes["query"] - self._common_rows(layer_set.slots["key"])
        readers = {role: slot for role, slot in layer_set.slots.items() if role != "output"}
        heads = {role: self._count_heads(slot, role, sizes, experts) for role, slot in readers.items()}
        keys = heads["key"].count
        if keys != heads["value"].count or not keys or self.heads % keys:
            counts = ", ".join(f"{role_heads.count} {role}" for role, role_heads in heads.items())
            raise CheckpointError(f"{output.tensor}: {counts} heads do not fit the {self.heads} heads of config.json")
        return self._complete(layer_set, heads, across, experts)

    def _size(self, slot: Slot, rows: int) -> int:
        """Return the number of rows of one head, given the rows of all heads."""
        size, rest = divmod(rows, self.heads)
        if rest or not size:
            shape = f"{slot.tensor} has shape {self.shape(slot)} (out, in)"
            raise CheckpointError(f"{shape}, which does not divide into {self.heads} heads")
        return size

    def _common_rows(self, key: Slot) -> int:
        """Return the number of rows of a latent key common to all heads: those that do not go through the latent."""
        if not key.latent:
            return 0
        return max(self.matrix(key, key.latent[0])[-2] - self.matrix(key)[-1], 0)

    def _count_heads(self, slot: Slot, role: str, sizes: Mapping[str, int], experts: list[int]) -> Heads:
        """Return the heads of a role; keys and values are equally many."""
        rows = self.matrix(slot)[-2]
        fixed = self.heads * sum(sizes[name] for name in slot.roles if name in QUERIES)
        per_key = sum(sizes[name] for name in slot.roles if name not in QUERIES)
        count = (rows - fixed) // per_key if per_key > 0 else 0
        stacked = experts if set(slot.roles) <= set(QUERIES) else []
        self.expect(slot, (*stacked, fixed + count * per_key, self._input_width(slot)))
        return Heads(self.heads if role in QUERIES else count, sizes[role])

    def _input_width(self, slot: Slot) -> int:
        """Return the width of a reader's input: that of the stream, or of the latent made from the stream."""
        if not slot.latent:
            return self.width
        (reader, norm), columns = slot.latent, self.matrix(slot)[-1]
        self.expect(slot, (columns + (self._common_rows(slot) if "key" in slot.roles else 0), self.width), reader)
        self.expect(slot, (columns,), norm)
        return columns

    def _complete(self, layer_set: LayerSet, heads: Mapping[str, Heads], hidden: int, experts: list[int]) -> LayerSet:
        """Return the set completed by what its shapes tell; the shapes of its norms are checked against them."""
        norms = {layer_set.norm: self.width, layer_set.output_norm: self.width, layer_set.inner_norm: hidden}
        sizes: dict[str, Shape] = {name: (size,) for name, size in norms.items() if name}
        sizes |= {variance: self.shapes[norm] for norm, variance in layer_set.variances.items()}
        sizes |= {bias: sizes[norm] for norm, bias in layer_set.biases.items() if norm in sizes}
        for name, shape in sizes.items():
            self._same(name, self.shapes[name], shape)
        return replace(layer_set, heads=heads, stacked=tuple(experts), width=self.width)


@dataclass(frozen=True)
class Layout:
    """A factorization bound to one checkpoint's header."""

    factorization: Factorization
    widths: tuple[int, ...]  # The width of the stream that each layer reads and writes; 0 in a stack without any branch
    heads: int  # The most query heads of any stack
    branches: Mapping[str, Sets]  # Branch of the registry -> the sets of each layer
    unclaimed: tuple[str, ...]  # Matrices of the residual width in the layers, neither read nor listed in `ignores`

    @property
    def layers(self) -> int:
        """The number of layers L in the file."""
        return len(self.widths)

    @property
    def width(self) -> int:
        """The residual width d; the largest one where stacks have different widths."""
        return max(self.widths)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths this checkpoint has, the canonical one first."""
        roles = {path: [each.slots.keys() for layer in self.sets(path) for each in layer] for path in PATHS}
        return tuple(path for path, sets in roles.items() if sets and all({*PATHS[path].roles} <= one for one in sets))

    @property
    def everything(self) -> Iterator[LayerSet]:
        """The sets of all branches in all layers."""
        return (layer_set for sets in self.branches.values() for layer in sets for layer_set in layer)

    def sets(self, path: str) -> Sets:
        """Return for each layer the sets of the branch that a path goes through."""
        return self.branches[PATHS[path].branch]

    def parts(self, path: str, number: int) -> int:
        """Return the number of interchangeable parts of a branch: hidden units, or heads, of all experts."""
        return sum(layer_set.parts for layer_set in self.sets(path)[number])

    def numbers(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the layers that have a path: all layers, unless they are of several kinds."""
        return tuple(number for number, layer_sets in enumerate(self.sets(path)) if layer_sets)

    def only(self, layers: Collection[int]) -> "Layout":
        """Return a layout in which only these layers have branches."""
        branches = {
            branch: tuple(layer_sets if number in layers else () for number, layer_sets in enumerate(sets))
            for branch, sets in self.branches.items()
        }
        return replace(self, branches=branches)

    def without(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the layers that do not have a path."""
        return tuple(number for number, layer_sets in enumerate(self.sets(path)) if not layer_sets)


def bind(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Layout:
    """Return the layout of tensor shapes; CheckpointError where one does not fit, NothingToCompare for too many."""
    layers = find_layers(factorization, shapes)
    if len(layers) > MOST_LAYERS:
        raise NothingToCompare(f"the weights have {len(layers)} layers; at most {MOST_LAYERS} are compared")
    fits, unclaimed = list[Fit](), list[str]()
    bound: dict[str, list[tuple[LayerSet, ...]]] = {branch: [] for branch in BRANCH_ROLES}
    for stack, own in itertools.groupby(layers, key=lambda layer: layer.stack):
        here = list(own)
        own_sets = factorization.branches.sets
        sets = {branch: [find_sets(own_sets(branch), layer) for layer in here] for branch in BRANCH_ROLES}
        heads = _heads(factorization, stack, config) if any(sets["attention"]) else 0
        fit = Fit(factorization, shapes, heads)
        # The width is that of the stream which the first branch writes into; 0 if there is no branch.
        if first := next(itertools.chain.from_iterable(itertools.chain(*sets.values())), None):
            fit = replace(fit, width=fit.matrix(first.slots.get("down") or first.slots["output"])[-2])
        fits += [fit] * len(here)
        claimed = set[str]()
        for branch, complete in (("mlp", fit.mlp), ("attention", fit.attention)):
            of_layers = [tuple(map(complete, layer_sets)) for layer_sets in sets[branch]]
            bound[branch] += of_layers
            claimed |= {name for layer_set in itertools.chain(*of_layers) for name in layer_set.tensors}
        unclaimed += [name for each in here for name in each.find_unclaimed(fit.width, claimed, factorization.ignores)]
    if not any(fit.width for fit in fits):
        raise CheckpointError(f"no layer has a branch that factorization {factorization.name} knows")
    branches = {branch: tuple(layer_sets) for branch, layer_sets in bound.items()}
    widths, most_heads = tuple(fit.width for fit in fits), max(fit.heads for fit in fits)
    return Layout(factorization, widths, most_heads, branches, tuple(unclaimed))


def _heads(factorization: Factorization, stack: Stack, config: Mapping[str, Any]) -> int:
    keys = [stack.fill_stage(key) for key in stack.heads(factorization)]
    key = next((key for key in keys if setting(config, key) is not None), keys[0])
    heads = setting(config, key)
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise CheckpointError(f"config.json: `{key}` must be a positive integer, not {heads!r}")
    return heads
