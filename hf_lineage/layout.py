"""Layout: a factorization bound to one checkpoint's header: how many layers, how wide, and where every matrix is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.errors import CheckpointError
from hf_lineage.registry import Factorization, MatrixSet, Norms, Slot, as_names, as_sets, slots

Shape = tuple[int, ...]
_NUMBER = r"(\d{1,6})"


@dataclass(frozen=True)
class LayerSet:
    """A matrix set found in one layer: role -> slot with the full tensor name, and its norms, if it has any."""

    slots: Mapping[str, Slot]
    norm: str | None
    output_norm: str | None
    part: int = 1
    """How many consecutive hidden units are interchangeable only together: the head size, 1 for an MLP."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor that the set reads."""
        norms = (name for name in (self.norm, self.output_norm) if name is not None)
        return tuple(dict.fromkeys((*(slot.tensor for slot in self.slots.values()), *norms)))


@dataclass(frozen=True)
class Layout:
    """A factorization bound to one checkpoint's header."""

    factorization: Factorization
    width: int
    heads: int
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
    def paths(self) -> tuple[str, ...]:
        """The paths this checkpoint has, the canonical one first."""
        gated = all("gate" in found.slots for layer in self.mlp for found in layer)
        return ("mlp", *(["mlp_gate"] if gated else []), "value_output", "query_key")


def bind(factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> Layout:
    """Return where everything is in a checkpoint with these tensor shapes.

    Raise CheckpointError where a tensor is missing or its shape does not fit the others or `config.json`.
    """
    heads = _heads(factorization, config)
    stored = {name: _oriented(shape, factorization) for name, shape in shapes.items()}
    layers = list(_layers(factorization, stored))
    mlp = tuple(tuple(_find_sets(as_sets(factorization.branches.mlp), layer)) for layer in layers)
    width = _width(mlp[0][0], stored)
    for found in (found for layer in mlp for found in layer):
        _check_mlp(found, stored, width)
    attention = tuple(
        tuple(
            _in_heads(found, stored, width, heads)
            for found in _find_sets(as_sets(factorization.branches.attention), layer)
        )
        for layer in layers
    )
    claimed = {name for layer in mlp + attention for found in layer for name in found.tensors}
    unclaimed = tuple(_unclaimed(layers, width, claimed, factorization.ignores))
    return Layout(factorization, width, heads, mlp, attention, unclaimed)


def _heads(factorization: Factorization, config: Mapping[str, Any]) -> int:
    keys = as_names(factorization.heads)
    key = next((key for key in keys if key in config), keys[0])
    heads = config.get(key)
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise CheckpointError(f"config.json: `{key}` must be a positive integer, not {heads!r}")
    return heads


@dataclass(frozen=True)
class _Layer:
    prefix: str
    shapes: Mapping[str, Shape]
    """Only this layer's tensors, by full name."""

    def find(self, name: str) -> str | None:
        """Return the full name of a tensor given relative to the layer, with or without `.weight`."""
        full = f"{self.prefix}.{name}"
        return next((found for found in (f"{full}.weight", full) if found in self.shapes), None)

    def experts(self, names: Iterable[str]) -> range:
        """Return the numbers that `{expert}` stands for in the names on disk; a single one where no name has it."""
        patterns = [re.escape(f"{self.prefix}.{name}") for name in names if "{expert}" in name]
        if not patterns:
            return range(1)
        pattern = re.compile(f"(?:{'|'.join(patterns)})(?:\\.weight)?".replace(r"\{expert\}", _NUMBER))
        found = {int(match[match.lastindex or 0]) for match in map(pattern.fullmatch, self.shapes) if match}
        return _without_gap(found, f"{self.prefix} has", "expert")


def _without_gap(found: set[int], where: str, what: str) -> range:
    """0 to the largest number found; raise CheckpointError if one between is missing."""
    everything = range(max(found, default=-1) + 1)
    missing = next((number for number in everything if number not in found), None)
    if missing is not None:
        raise CheckpointError(f"{where} no {what} {missing} but {what} {everything[-1]}; download the weights again")
    return everything


def _oriented(shape: Shape, factorization: Factorization) -> Shape:
    """A stored shape as (..., out, in)."""
    turned = factorization.stored == "in_out" and len(shape) >= 2
    return (*shape[:-2], shape[-1], shape[-2]) if turned else shape


def _layers(factorization: Factorization, shapes: Mapping[str, Shape]) -> Iterator[_Layer]:
    patterns = as_names(factorization.layers)
    for pattern in patterns:
        matcher = re.compile(f"({re.escape(pattern).replace(re.escape('{layer}'), _NUMBER)})\\.")
        found: dict[int, dict[str, Shape]] = {}
        for name, shape in shapes.items():
            if match := matcher.match(name):
                found.setdefault(int(match[2]), {})[name] = shape
        if found:
            numbers = _without_gap(set(found), "the weights have", "layer")
            yield from (_Layer(pattern.format(layer=number), found[number]) for number in numbers)
            return
    raise CheckpointError(
        f"no tensor is named like {' or '.join(patterns)}, as factorization {factorization.name} expects: "
        "the weights are not those of the class that config.json names"
    )


def _find_sets(alternatives: Iterable[MatrixSet], layer: _Layer) -> Iterator[LayerSet]:
    """The sets that a layer has; a set of which only a part is there is an error, and so is a layer with none."""
    missing: list[str] = []
    complete = 0
    for matrices in alternatives:
        declared = list(slots(matrices))
        missing.append(declared[0].tensor)
        for expert in layer.experts(slot.tensor for slot in declared):
            wanted = {
                slot.role: replace(slot, tensor=slot.tensor.replace("{expert}", str(expert))) for slot in declared
            }
            named = {role: layer.find(slot.tensor) for role, slot in wanted.items()}
            absent = [slot.tensor for role, slot in wanted.items() if named[role] is None]
            if absent and any(named.values()):
                raise CheckpointError(
                    f"{layer.prefix} has no tensor {absent[0]}, though others of its branch are there"
                )
            if absent:
                continue
            complete += 1
            found = {role: replace(wanted[role], tensor=name) for role, name in named.items() if name}
            yield LayerSet(found, _first(matrices.norm, layer), _first(matrices.output_norm, layer))
    if not complete:
        raise CheckpointError(f"{layer.prefix} has no tensor {' or '.join(missing)}")


def _first(names: Norms, layer: _Layer) -> str | None:
    candidates = (names,) if isinstance(names, str) else names
    found = next((full for name in candidates if name and (full := layer.find(name))), None)
    if candidates and not found and None not in candidates:
        raise CheckpointError(f"{layer.prefix} has no norm {' or '.join(map(str, candidates))}")
    return found


def _matrix(name: str, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of a matrix, or of a stack of them."""
    if len(shapes[name]) not in (2, 3) or 0 in shapes[name]:
        raise CheckpointError(f"{name} has shape {shapes[name]}, which is no matrix")
    return shapes[name]


def _width(found: LayerSet, shapes: Mapping[str, Shape]) -> int:
    return _matrix(found.slots["down"].tensor, shapes)[-2]


def _check_mlp(found: LayerSet, shapes: Mapping[str, Shape], width: int) -> None:
    """Writers are (..., width, hidden), readers (..., hidden x roles packed, width)."""
    *experts, _, hidden = _matrix(found.slots["down"].tensor, shapes)
    for role, slot in found.slots.items():
        rows, columns = (width, hidden) if role == "down" else (hidden * len(slot.roles), width)
        _expect(slot.tensor, shapes, (*experts, rows, columns))
    _check_norms(found, shapes, width)


def _in_heads(found: LayerSet, shapes: Mapping[str, Shape], width: int, heads: int) -> LayerSet:
    """The set with its head size; writers are (width, heads x size), readers (heads packed x size, width)."""
    output = found.slots["output"].tensor
    size, rest = divmod(_matrix(output, shapes)[-1], heads)
    if rest:
        raise CheckpointError(f"{output} has shape {shapes[output]} (out, in), which {heads} heads do not make")
    _expect(output, shapes, (width, heads * size))
    counts = {}
    for role, slot in found.slots.items():
        if role != "output":
            stacked = _matrix(slot.tensor, shapes)[0] // size
            counts[role] = head_count(slot, role, stacked, heads)
            whole = sum(head_count(slot, packed, stacked, heads) for packed in slot.roles)
            _expect(slot.tensor, shapes, (whole * size, width))
    if counts["query"] != heads or counts["key"] != counts["value"] or not counts["key"] or heads % counts["key"]:
        said = ", ".join(f"{count} {role}" for role, count in counts.items())
        raise CheckpointError(f"{output}: {said} heads do not line up with the {heads} heads of config.json")
    _check_norms(found, shapes, width)
    return replace(found, part=size)


def head_count(slot: Slot, role: str, stacked: int, heads: int) -> int:
    """Return how many of the `stacked` heads in a stored matrix are of this role; keys and values are equally many."""
    if slot.roles == (role,):
        return stacked
    if role == "query":
        return heads
    others = [packed for packed in slot.roles if packed != "query"]
    return (stacked - heads * ("query" in slot.roles)) // len(others)


def _check_norms(found: LayerSet, shapes: Mapping[str, Shape], width: int) -> None:
    for name in (found.norm, found.output_norm):
        if name is not None:
            _expect(name, shapes, (width,))


def _expect(name: str, shapes: Mapping[str, Shape], shape: Shape) -> None:
    if shapes[name] != shape:
        raise CheckpointError(f"{name} has shape {shapes[name]}, the rest of the model asks for {shape} (out, in)")


def _unclaimed(layers: Iterable[_Layer], width: int, claimed: set[str], ignores: Iterable[str]) -> Iterator[str]:
    for layer in layers:
        ignored = [re.escape(f"{layer.prefix}.{name}").replace(r"\{expert\}", _NUMBER) for name in ignores]
        pattern = re.compile(f"({'|'.join(ignored)})(\\.weight)?") if ignored else None
        for name, shape in layer.shapes.items():
            matrix = len(shape) in (2, 3) and width in shape
            if matrix and name not in claimed and not (pattern and pattern.fullmatch(name)):
                yield name
