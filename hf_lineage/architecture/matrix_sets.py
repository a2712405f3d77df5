"""Matrix sets: those that each layer of a checkpoint has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.activity import SCORES, SIGMOID, Activation, Scores
from hf_lineage.architecture.layers import Layer
from hf_lineage.architecture.registry import MatrixSet, Norms, Sets, Slot, Stacks, as_names, as_sets, as_stacks, slots
from hf_lineage.errors import CheckpointError

BIASES = ("bias", "beta")
"""Last parts of the names of vectors that are added to the output of a matrix, of a norm or of a router."""


@dataclass(frozen=True)
class Heads:
    """How many heads of a role there are and how many rows each has; in an MLP every hidden unit is one of its own."""

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
    """By role, as the shapes say."""
    stacked: tuple[int, ...] = ()
    """(E,) where the writer is a stack of experts."""
    width: int = 0
    """Of the stream that the set reads and writes, as the shapes say."""
    variances: Mapping[str, str] = field(default_factory=dict)
    """Norm -> the stored running variance that it divides by; only batch norms have one."""
    fed_by: str | None = None
    """The norm whose output the branch reads, where its gain acts on the stream itself."""
    router: str | None = None
    """The matrix that computes the routing logits of the experts."""
    correction: str | None = None
    """The vector that is added to the scores of the experts before they are chosen."""
    scores: Scores = SIGMOID
    """What the correction is added to."""
    table: str | None = None
    """The table that names the experts of each token of the vocabulary."""
    expert: int = 0
    """The number of the expert, where each expert is stored by itself."""
    biases: Mapping[str, str] = field(default_factory=dict)
    """Matrix or norm -> the vector that is added to its output, where there is one."""
    activations: tuple[str, ...] = ()
    """The names that the registry gives for the activation between reader and writer."""
    learned: tuple[str, ...] = ()
    """The tensors that hold what the activation has learned; none where the layer has not all of them."""
    routed_by: tuple[str, ...] = ()
    """The keys of `config.json` that count the experts a token is sent to."""
    grouped_by: tuple[str, ...] = ()
    """The keys of `config.json` that count the groups of experts, and those that a token chooses from."""
    activation: Activation | None = None
    """The activation between reader and writer; None if the registry names none."""
    routed: int | None = None
    """How many experts a token is sent to."""
    groups: tuple[int, int] = (1, 1)
    """How many groups of experts there are, and from how many of them a token chooses."""
    measured: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    """(parts,): how much each hidden unit or head wrote when the model ran; None where it was not run."""

    @property
    def normed(self) -> bool:
        """Whether a norm stands on the output and gives it the size of its gain; a layer scale does not count."""
        return "norm" in ".".join((self.output_norm or "").split(".")[-2:]).lower()

    @property
    def units(self) -> int:
        """How many rows a reader has once its heads are repeated for every query head."""
        heads = self.heads.get("query") or self.heads["up"]
        return heads.count * heads.size

    @property
    def part(self) -> int:
        """How many consecutive hidden units are interchangeable together: one, or the size of a head."""
        return self.heads["query"].size if "query" in self.heads else 1

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor that the set claims, each once."""
        return self.read_by(*self.slots)

    @property
    def choosing(self) -> tuple[str, ...]:
        """Every tensor that chooses between experts."""
        return tuple(name for name in (self.router, self.correction, self.table) if name is not None)

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
    here = [matrices for matrices in as_sets(sets) if _is_here(matrices, layer)]
    layer_sets = tuple(layer_set for matrices in here for layer_set in _complete(matrices, layer))
    if not layer_sets and (isinstance(sets, MatrixSet) or None not in sets):
        names = ((*as_names(matrices.where), next(slots(matrices)).tensor)[0] for matrices in as_sets(sets))
        raise CheckpointError(f"{layer.prefix} has no tensor {' or '.join(names)}")
    return layer_sets


def _is_here(matrices: MatrixSet, layer: Layer) -> bool:
    """Whether a layer is of the kind that a set is for."""
    return all(map(layer.find, as_names(matrices.where))) and not any(map(layer.find, as_names(matrices.unless)))


def _complete(matrices: MatrixSet, layer: Layer) -> Iterator[LayerSet]:
    """A set once for each expert, if the layer has it."""
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
            fed_by, router, correction = (
                _first(names, layer) for names in (matrices.fed_by, matrices.router, matrices.correction)
            )
            added = (*(slot.tensor for slot in by_role.values()), norm, fed_by, router)
            yield LayerSet(
                by_role,
                norm,
                output_norm,
                inner_norm,
                variances=dict(_variances((norm, output_norm, inner_norm, *between), layer)),
                fed_by=fed_by,
                router=router,
                correction=correction,
                scores=SCORES[matrices.scores],
                table=_first(matrices.table, layer),
                expert=expert,
                biases={name: bias for name, bias in _biases(added, layer) if bias != correction},
                activations=_of_stack(matrices.activation, layer.stack.name),
                learned=_all(matrices.learned, layer),
                routed_by=as_names(matrices.routed),
                grouped_by=matrices.grouped or (),
            )


def _variances(norms: Iterable[str | None], layer: Layer) -> Iterator[tuple[str, str]]:
    for norm in filter(None, norms):
        beside = f"{norm.removesuffix('weight')}running_var"
        if norm.endswith(".weight") and beside in layer.shapes:
            yield norm, beside


def _of_stack(names: Stacks, stack: str) -> tuple[str, ...]:
    """The names for one stack, or for all stacks; empty if there are none."""
    stacks = as_stacks(names)
    return stacks.get(stack, stacks.get("", ()))


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


def _all(names: Iterable[str], layer: Layer) -> tuple[str, ...]:
    on_disk = [layer.find(name) for name in names]
    return () if None in on_disk else tuple(filter(None, on_disk))


def _first(names: Norms, layer: Layer) -> str | None:
    candidates = as_names(names)
    on_disk = next((full for name in candidates if name and (full := layer.find(name))), None)
    if candidates and not on_disk and None not in candidates:
        raise CheckpointError(f"{layer.prefix} has no norm {' or '.join(map(str, candidates))}")
    return on_disk
