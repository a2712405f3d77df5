"""Matrix sets: the matrices of each branch of each layer of a checkpoint, by their roles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hf_lineage.architecture.layers import Layer
from hf_lineage.architecture.registry import Slot, slots
from hf_lineage.architecture.schema import MatrixSet, Norms, Sets, as_names, as_sets
from hf_lineage.errors import CheckpointError

BIASES = ("bias", "beta")
"""Last parts of the names of vectors that are added to the output of a matrix or of a norm."""


@dataclass(frozen=True)
class Heads:
    """The number of heads of a role, and the rows of each; in an MLP every hidden unit is a head of its own."""

    count: int
    size: int


@dataclass(frozen=True)
class LayerSet:
    """A matrix set of one layer: role -> slot with the full tensor name, and its norms, if it has any."""

    slots: Mapping[str, Slot]
    norm: str | None
    output_norm: str | None
    inner_norm: str | None
    heads: Mapping[str, Heads] = field(default_factory=dict)
    """Role -> its heads, as the shapes tell."""
    stacked: tuple[int, ...] = ()
    """(E,) where the writer is a stack of experts."""
    width: int = 0
    """The width of the stream that the set reads and writes, as the shapes tell."""
    variances: Mapping[str, str] = field(default_factory=dict)
    """Norm -> the stored running variance that it divides by; only batch norms have one."""
    expert: int = 0
    """The number of the expert, where each expert is stored by itself."""
    biases: Mapping[str, str] = field(default_factory=dict)
    """Matrix or norm -> the vector that is added to its output, where there is one."""

    @property
    def units(self) -> int:
        """The number of rows of a reader once its heads are repeated for every query head."""
        heads = self.heads.get("query") or self.heads["up"]
        return heads.count * heads.size

    @property
    def part(self) -> int:
        """The number of consecutive hidden units that are interchangeable together: one, or the size of a head."""
        return self.heads["query"].size if "query" in self.heads else 1

    @property
    def parts(self) -> int:
        """The number of interchangeable parts of the set, over all experts that are stacked in it."""
        return self.units // self.part * math.prod(self.stacked)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor that the set claims, each once."""
        return self.read_by(*self.slots)

    def read_by(self, *roles: str) -> tuple[str, ...]:
        """Return every tensor that these roles and the norms are stored in, each once."""
        matrices = (name for role in roles for name in self.slots[role].tensors)
        norms = (name for name in (self.norm, self.output_norm, self.inner_norm) if name is not None)
        names = (*matrices, *norms)
        return tuple(dict.fromkeys((*names, *(self.variances[name] for name in names if name in self.variances))))


def find_sets(sets: Sets, layer: Layer) -> tuple[LayerSet, ...]:
    """Return the sets that a layer has.

    Raise CheckpointError for a set of which only a part is there, and for a layer with none unless null is among them.
    """
    here = [
        matrices
        for matrices in as_sets(sets)
        if all(map(layer.find, as_names(matrices.where))) and not any(map(layer.find, as_names(matrices.unless)))
    ]
    layer_sets = tuple(layer_set for matrices in here for layer_set in _complete(matrices, layer))
    if not layer_sets and (isinstance(sets, MatrixSet) or None not in sets):
        names = ((*as_names(matrices.where), next(slots(matrices)).tensor)[0] for matrices in as_sets(sets))
        raise CheckpointError(f"{layer.prefix} has no tensor {' or '.join(names)}")
    return layer_sets


def _complete(matrices: MatrixSet, layer: Layer) -> Iterator[LayerSet]:
    """Yield a set once for each expert, if the layer has it."""
    declared = list(slots(matrices))
    for expert in layer.experts(slot.tensor for slot in declared):
        wanted = {slot.role: replace(slot, tensor=slot.tensor.replace("{expert}", str(expert))) for slot in declared}
        names = [name for slot in wanted.values() for name in slot.tensors]
        absent = [name for name in names if layer.find(name) is None]
        if absent and any(map(layer.find, names)):
            raise CheckpointError(f"{layer.prefix} has no tensor {absent[0]}, although others of its branch are there")
        if not absent:
            by_role = {role: _on_disk(slot, layer) for role, slot in wanted.items()}
            norm, output_norm, inner_norm = (
                _first(names, layer) for names in (matrices.norm, matrices.output_norm, matrices.inner_norm)
            )
            between = (slot.latent[1] for slot in by_role.values() if slot.latent)
            added = (*(slot.tensor for slot in by_role.values()), norm)
            yield LayerSet(
                by_role,
                norm,
                output_norm,
                inner_norm,
                variances=dict(_variances((norm, output_norm, inner_norm, *between), layer)),
                expert=expert,
                biases=dict(_biases(added, layer)),
            )


def _variances(norms: Iterable[str | None], layer: Layer) -> Iterator[tuple[str, str]]:
    for norm in filter(None, norms):
        beside = f"{norm.removesuffix('weight')}running_var"
        if norm.endswith(".weight") and beside in layer.shapes:
            yield norm, beside


def _biases(names: Iterable[str | None], layer: Layer) -> Iterator[tuple[str, str]]:
    for name in filter(None, names):
        start = name.removesuffix("weight").removesuffix("gamma")
        beside = (f"{start}{bias}" for bias in BIASES) if start != name else (f"{name}_bias", f"{name}.bias")
        bias = next((name_on_disk for name_on_disk in beside if name_on_disk in layer.shapes), None)
        if bias is not None:
            yield name, bias


def _on_disk(slot: Slot, layer: Layer) -> Slot:
    tensor, *latent = (layer.find(name) or name for name in slot.tensors)
    return replace(slot, tensor=tensor, latent=tuple(latent))


def _first(names: Norms, layer: Layer) -> str | None:
    candidates = as_names(names)
    on_disk = next((full for name in candidates if name and (full := layer.find(name))), None)
    if candidates and not on_disk and None not in candidates:
        raise CheckpointError(f"{layer.prefix} has no norm {' or '.join(map(str, candidates))}")
    return on_disk
