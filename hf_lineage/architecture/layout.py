"""Layout: a factorization bound to a checkpoint's header: number and width of the layers, and place of each matrix."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hf_lineage.architecture.fit import Fit
from hf_lineage.architecture.layers import Layer, Shape, Stack, find_layers
from hf_lineage.architecture.matrix_sets import LayerSet, find_sets
from hf_lineage.architecture.registry import BRANCH_ROLES, MOST_LAYERS, PATHS, Factorization, as_stacks, setting
from hf_lineage.errors import CheckpointError, NothingToCompare

T = TypeVar("T")
Sets = tuple[tuple[LayerSet, ...], ...]


@dataclass(frozen=True)
class Layout:
    """A factorization bound to one checkpoint's header."""

    factorization: Factorization
    widths: tuple[int, ...]
    """The width of the stream that each layer reads and writes; 0 in a stack without any branch."""
    heads: int
    """The most query heads of any stack."""
    branches: Mapping[str, Sets]
    """Branch of the registry -> the sets of each layer."""
    unclaimed: tuple[str, ...]
    """Matrices of the residual width inside the layers that no branch reads and `ignores` does not list."""

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
        return tuple(path for path in PATHS if self.numbers(path) and self._makes(path))

    def _makes(self, path: str) -> bool:
        """Return whether every set has the two matrices that the path multiplies."""
        roles = set(PATHS[path].roles)
        return all(roles <= layer_set.slots.keys() for layer in self.sets(path) for layer_set in layer)

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

    def only(self, layers: Collection[int]) -> Layout:
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
    """Return the layout of a checkpoint with these tensor shapes.

    Raise CheckpointError where a tensor is missing or its shape does not fit the others or `config.json`,
    NothingToCompare for more layers than can be compared.
    """
    everything = find_layers(factorization, shapes)
    if len(everything) > MOST_LAYERS:
        raise NothingToCompare(f"the weights have {len(everything)} layers; at most {MOST_LAYERS} are compared")
    layers = itertools.groupby(everything, key=lambda layer: layer.stack)
    stacks = [_bound(factorization, shapes, config, stack, list(own)) for stack, own in layers]
    if not any(layout.width for layout in stacks):
        raise CheckpointError(f"no layer has a branch that factorization {factorization.name} knows")
    return Layout(
        factorization,
        widths=_joined(layout.widths for layout in stacks),
        heads=max(layout.heads for layout in stacks),
        branches={branch: _joined(layout.branches[branch] for layout in stacks) for branch in BRANCH_ROLES},
        unclaimed=_joined(layout.unclaimed for layout in stacks),
    )


def _joined(parts: Iterable[Iterable[T]]) -> tuple[T, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def _bound(
    factorization: Factorization,
    shapes: Mapping[str, Shape],
    config: Mapping[str, Any],
    stack: Stack,
    layers: list[Layer],
) -> Layout:
    """Return the layout of one stack of layers."""
    sets_by_branch = {
        branch: [find_sets(factorization.branches.sets(branch), layer) for layer in layers] for branch in BRANCH_ROLES
    }
    heads = _heads(factorization, stack, config) if any(sets_by_branch["attention"]) else 0
    fit = Fit(factorization, shapes, config, heads, _width(factorization, shapes, _joined(sets_by_branch.values())))
    bound = {branch: tuple(fit.sets(branch, sets) for sets in here) for branch, here in sets_by_branch.items()}
    layout = Layout(factorization, (fit.width,) * len(layers), heads, bound, unclaimed=())
    claimed = {name for layer_set in layout.everything for name in layer_set.tensors}
    unclaimed = (name for layer in layers for name in layer.unclaimed(fit.width, claimed, factorization.ignores))
    return replace(layout, unclaimed=tuple(unclaimed))


def _heads(factorization: Factorization, stack: Stack, config: Mapping[str, Any]) -> int:
    keys_by_stack = as_stacks(factorization.heads)
    keys = [stack.named(key) for key in keys_by_stack.get(stack.name) or next(iter(keys_by_stack.values()))]
    key = next((key for key in keys if setting(config, key) is not None), keys[0])
    heads = setting(config, key)
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise CheckpointError(f"config.json: `{key}` must be a positive integer, not {heads!r}")
    return heads


def _width(factorization: Factorization, shapes: Mapping[str, Shape], sets: Iterable[tuple[LayerSet, ...]]) -> int:
    """Return the width of the stream that the first branch writes into; 0 if there is no branch."""
    first = next((layer_set for layer_sets in sets for layer_set in layer_sets), None)
    if first is None:
        return 0
    return Fit(factorization, shapes, {}).matrix(first.slots.get("down") or first.slots["output"])[-2]
