"""Layers: those of a checkpoint, by the names of its tensors, and the matrices of each branch by their roles."""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hf_lineage.architecture.registry import Slot, slots
from hf_lineage.architecture.schema import Factorization, MatrixSet, Norms, Sets, as_names, as_sets, as_stacks
from hf_lineage.architecture.schema import prefixes as prefixes_of
from hf_lineage.errors import CheckpointError

Shape = tuple[int, ...]
KERNEL = 4  # Dimensions of a convolution's weights, (out, in, height, width); its taps are summed
STACKED = 3  # Dimensions of a stack of matrices, one for each expert
BIASES = ("bias", "beta")  # Last parts of the names of vectors that are added to the output of a matrix or of a norm
_NUMBER = r"(\d{1,6})"


@dataclass(frozen=True)
class Stack:
    """Consecutive layers of a model: those of the encoder, of the decoder, or of one stage."""

    name: str
    stage: int

    def fill_stage(self, name: str) -> str:
        """Return a prefix, or a key of `config.json`, with the number of this stage."""
        return name.replace("{stage}", str(self.stage))

    def heads(self, factorization: Factorization) -> tuple[str, ...]:
        """Return the keys of `config.json` that count the query heads of this stack."""
        keys = as_stacks(factorization.heads)
        return keys.get(self.name) or next(iter(keys.values()))


@dataclass(frozen=True)
class Layer:
    """One layer of a checkpoint."""

    stack: Stack
    number: int  # The number of the layer in its stack
    prefix: str
    outer_prefix: str  # The prefix of names with `{layer}`: that of the layer without its last name and its number
    shapes: Mapping[str, Shape]  # Only this layer's tensors, by full name, as stored

    def fill_numbers(self, pattern: str) -> str:
        """Return a prefix with the numbers of this layer and of its stage."""
        return self.stack.fill_stage(pattern).replace("{layer}", str(self.number))

    def full(self, name: str) -> str:
        """Return the full name of a tensor or, still with `{expert}`, of several."""
        outer = self.outer_prefix + name.replace("{layer}", str(self.number))
        return outer if "{layer}" in name else f"{self.prefix}.{name}"

    def find(self, name: str) -> str | None:
        """Return the name on disk, with or without `.weight`."""
        full = self.full(name)
        return next((candidate for candidate in (f"{full}.weight", full) if candidate in self.shapes), None)

    def experts(self, names: Iterable[str]) -> range:
        """Return the numbers of the experts in the names on disk; only 0 where no name has `{expert}`."""
        patterns = [re.escape(self.full(name)) for name in names if "{expert}" in name]
        if not patterns:
            return range(1)
        pattern = re.compile(f"(?:{'|'.join(patterns)})(?:\\.weight)?".replace(r"\{expert\}", _NUMBER))
        numbers = {int(match[match.lastindex or 0]) for match in map(pattern.fullmatch, self.shapes) if match}
        return _without_gap(numbers, f"{self.prefix} has", "expert")

    def find_unclaimed(self, width: int, claimed: set[str], ignores: Iterable[str]) -> Iterator[str]:
        """Yield the matrices of the residual width that are neither claimed nor ignored."""
        ignored = "|".join(re.escape(self.full(name)) for name in ignores)
        pattern = re.compile(f"({ignored})(\\.weight)?".replace(r"\{expert\}", _NUMBER).replace(r"\*", ".*"))
        for name, shape in self.shapes.items():
            is_wide = len(shape) in (2, 3, 4) and width in (shape[:2] if len(shape) == KERNEL else shape)
            if is_wide and name not in claimed and not pattern.fullmatch(name):
                yield name


def _without_gap(numbers: set[int], where: str, what: str) -> range:
    """Return all numbers from 0 to the largest one; raise CheckpointError if one of them is missing."""
    everything = range(max(numbers, default=-1) + 1)
    missing = next((number for number in everything if number not in numbers), None)
    if missing is not None:
        raise CheckpointError(f"{where} no {what} {missing} but {what} {everything[-1]}; have the weights saved again")
    return everything


def find_layers(factorization: Factorization, shapes: Mapping[str, Shape]) -> list[Layer]:
    """Return the layers of every stack, each under the first of its prefixes on disk; CheckpointError for no layers."""
    layers: list[Layer] = []
    for name, patterns in as_stacks(factorization.layers).items():
        for stage, prefixes in _stages(patterns, shapes):
            layers += _stack(factorization, Stack(name, stage), prefixes, shapes)
    if not layers:
        raise _none(factorization, prefixes_of(factorization))
    return layers


def _stages(patterns: tuple[str, ...], shapes: Mapping[str, Shape]) -> list[tuple[int, tuple[str, ...]]]:
    """Return number and prefixes of every stage on disk, none of which may lack, or of every block with layers."""
    if any("{block}" in pattern for pattern in patterns):  # blocks may stand within each other
        blocks = sorted({block for pattern in patterns for block in _blocks(pattern, shapes)})
        return [(number, (prefix,)) for number, (_, prefix) in enumerate(blocks)]
    for pattern in (pattern for pattern in patterns if "{stage}" in pattern):
        matcher = re.compile(re.escape(pattern.partition("{stage}")[0]) + _NUMBER)
        numbers = {int(match[1]) for match in map(matcher.match, shapes) if match}
        if numbers:
            return [(stage, patterns) for stage in _without_gap(numbers, "the weights have", "stage")]
    return [(0, patterns)]


def _blocks(pattern: str, shapes: Mapping[str, Shape]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the numbers of every block on disk that has layers, and the prefix of its layers."""
    before, _, _ = pattern.partition("{layer}")
    matcher = re.compile(re.escape(before).replace(r"\{block\}", _NUMBER) + _NUMBER)
    for match in filter(None, map(matcher.match, shapes)):
        numbers = match.groups()[:-1]
        prefix = functools.reduce(lambda prefix, number: prefix.replace("{block}", number, 1), numbers, pattern)
        yield tuple(map(int, numbers)), prefix


def _stack(
    factorization: Factorization, stack: Stack, prefixes: tuple[str, ...], shapes: Mapping[str, Shape]
) -> list[Layer]:
    patterns = [stack.fill_stage(prefix) for prefix in prefixes]
    beside = {name.partition("{layer}")[0] + "{layer}" for name in _in_branches(factorization) if "{layer}" in name}
    for pattern in patterns:
        outside = re.sub(r"[^.]*\.?\{layer\}.*", "", pattern)
        starts = "|".join(re.escape(start) for start in (pattern, *(outside + name for name in sorted(beside))))
        matcher = re.compile(f"(?:{starts})\\.".replace(r"\{layer\}", _NUMBER))
        by_number: dict[int, dict[str, Shape]] = {}
        for name, shape in shapes.items():
            if match := matcher.match(name):
                by_number.setdefault(int(match[match.lastindex or 0]), {})[name] = shape
        if by_number:
            numbers = _without_gap(set(by_number), "the weights have", "layer")
            return [Layer(stack, n, pattern.replace("{layer}", str(n)), outside, by_number[n]) for n in numbers]
    raise _none(factorization, patterns)


def _none(factorization: Factorization, patterns: Iterable[str]) -> CheckpointError:
    wrong = f"no tensor is named like {' or '.join(patterns)}, as factorization {factorization.name} expects"
    return CheckpointError(f"{wrong}: the weights are not those of the class that config.json names")


def named_tensors(factorization: Factorization) -> Iterator[str]:
    """Yield every tensor that a factorization names, relative to the layer."""
    yield from _in_branches(factorization)
    for matrices in factorization.branches.everything():
        yield from (*as_names(matrices.where), *as_names(matrices.unless))


def _in_branches(factorization: Factorization) -> Iterator[str]:
    for matrices in factorization.branches.everything():
        yield from (name for slot in slots(matrices) for name in slot.tensors)
        yield from (name for names in matrices.norms for name in as_names(names) if name)


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
    heads: Mapping[str, Heads] = field(default_factory=dict)  # Role -> its heads, as the shapes tell
    stacked: tuple[int, ...] = ()  # (E,) where the writer is a stack of experts
    width: int = 0  # The width of the stream that the set reads and writes, as the shapes tell
    variances: Mapping[str, str] = field(default_factory=dict)  # Norm -> the running variance it divides by
    expert: int = 0  # The number of the expert, where each expert is stored by itself
    biases: Mapping[str, str] = field(default_factory=dict)  # Matrix or norm -> the vector added to its output

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
        names: list[str] = []
        for role in roles:
            names += self.slots[role].tensors
        names += filter(None, (self.norm, self.output_norm, self.inner_norm))
        names += [self.variances[name] for name in names if name in self.variances]
        return tuple(dict.fromkeys(names))


def find_sets(sets: Sets, layer: Layer) -> tuple[LayerSet, ...]:
    """Return the sets that a layer has; CheckpointError for a part of one, or for none unless null is among them."""
    layer_sets: list[LayerSet] = []
    for matrices in as_sets(sets):
        if all(map(layer.find, as_names(matrices.where))) and not any(map(layer.find, as_names(matrices.unless))):
            layer_sets += _complete(matrices, layer)
    if not layer_sets and (isinstance(sets, MatrixSet) or None not in sets):
        names = ((*as_names(matrices.where), next(slots(matrices)).tensor)[0] for matrices in as_sets(sets))
        raise CheckpointError(f"{layer.prefix} has no tensor {' or '.join(names)}")
    return tuple(layer_sets)


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
            by_role = {}
            for role, slot in wanted.items():
                tensor, *latent = (layer.find(name) or name for name in slot.tensors)
                by_role[role] = replace(slot, tensor=tensor, latent=tuple(latent))
            norm, output_norm, inner_norm = (_first(names, layer) for names in matrices.norms)
            between = (slot.latent[1] for slot in by_role.values() if slot.latent)
            norms = [name for name in (norm, output_norm, inner_norm, *between) if name and name.endswith(".weight")]
            variances = {name: f"{name.removesuffix('weight')}running_var" for name in norms}
            biases = dict[str, str]()
            for name in filter(None, (*(slot.tensor for slot in by_role.values()), norm)):
                start = name.removesuffix("weight").removesuffix("gamma")
                known = (f"{start}{bias}" for bias in BIASES) if start != name else (f"{name}_bias", f"{name}.bias")
                if bias := next((each for each in known if each in layer.shapes), None):
                    biases[name] = bias
            variances = {name: variance for name, variance in variances.items() if variance in layer.shapes}
            yield LayerSet(by_role, norm, output_norm, inner_norm, variances=variances, expert=expert, biases=biases)


def _first(names: Norms, layer: Layer) -> str | None:
    candidates = as_names(names)
    on_disk = next((full for name in candidates if name and (full := layer.find(name))), None)
    if candidates and not on_disk and None not in candidates:
        raise CheckpointError(f"{layer.prefix} has no norm {' or '.join(map(str, candidates))}")
    return on_disk
