"""Layers: those that the names in a checkpoint tell of, stack by stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hf_lineage.errors import CheckpointError
from hf_lineage.registry import slots
from hf_lineage.schema import Factorization, as_names, as_sets, as_stacks

Shape = tuple[int, ...]
KERNEL = 4
"""Dimensions of a convolution's weights, (out, in, height, width); its taps are summed."""
_NUMBER = r"(\d{1,6})"


@dataclass(frozen=True)
class Stack:
    """Which layers follow one another in a model: the encoder's or the decoder's, those of one stage."""

    name: str
    stage: int

    def named(self, name: str) -> str:
        """Return a prefix or a key of this stack."""
        return name.replace("{stage}", str(self.stage))


@dataclass(frozen=True)
class Layer:
    """One layer of a checkpoint."""

    stack: Stack
    number: int
    """Within its stack."""
    prefix: str
    outside: str
    """What names with `{layer}` are relative to: the prefix without its last name and the number."""
    shapes: Mapping[str, Shape]
    """Only this layer's tensors, by full name, as stored."""

    def full(self, name: str) -> str:
        """Return the full name of a tensor or, still with `{expert}`, of several."""
        beside = self.outside + name.replace("{layer}", str(self.number))
        return beside if "{layer}" in name else f"{self.prefix}.{name}"

    def find(self, name: str) -> str | None:
        """Return the name on disk, with or without `.weight`."""
        full = self.full(name)
        return next((found for found in (f"{full}.weight", full) if found in self.shapes), None)

    def experts(self, names: Iterable[str]) -> range:
        """Return the numbers that `{expert}` stands for in the names on disk; a single one where no name has it."""
        patterns = [re.escape(self.full(name)) for name in names if "{expert}" in name]
        if not patterns:
            return range(1)
        pattern = re.compile(f"(?:{'|'.join(patterns)})(?:\\.weight)?".replace(r"\{expert\}", _NUMBER))
        found = {int(match[match.lastindex or 0]) for match in map(pattern.fullmatch, self.shapes) if match}
        return _without_gap(found, f"{self.prefix} has", "expert")

    def unclaimed(self, width: int, claimed: set[str], ignores: Iterable[str]) -> Iterator[str]:
        """Yield the matrices of the residual width that are neither claimed nor ignored."""
        ignored = "|".join(re.escape(self.full(name)) for name in ignores)
        pattern = re.compile(f"({ignored})(\\.weight)?".replace(r"\{expert\}", _NUMBER).replace(r"\*", ".*"))
        for name, shape in self.shapes.items():
            if (
                len(shape) in (2, 3, 4)
                and width in (shape[:2] if len(shape) == KERNEL else shape)
                and name not in claimed
                and not pattern.fullmatch(name)
            ):
                yield name


def _without_gap(found: set[int], where: str, what: str) -> range:
    """0 to the largest number found; raise CheckpointError if one between is missing."""
    everything = range(max(found, default=-1) + 1)
    missing = next((number for number in everything if number not in found), None)
    if missing is not None:
        raise CheckpointError(f"{where} no {what} {missing} but {what} {everything[-1]}; download the weights again")
    return everything


def find_layers(factorization: Factorization, shapes: Mapping[str, Shape]) -> list[Layer]:
    """Return the layers of every stack, each under the first of its prefixes that the checkpoint has.

    Raise CheckpointError if it has none of them.
    """
    stacks = as_stacks(factorization.layers)
    return [
        layer
        for stack, patterns in stacks.items()
        for stage in _stages(patterns, shapes)
        for layer in _stack(factorization, Stack(stack, stage), patterns, shapes)
    ]


def _stages(patterns: Iterable[str], shapes: Mapping[str, Shape]) -> range:
    """The numbers that `{stage}` stands for in the names on disk; a single one where no prefix has it."""
    for pattern in (pattern for pattern in patterns if "{stage}" in pattern):
        matcher = re.compile(re.escape(pattern.partition("{stage}")[0]) + _NUMBER)
        found = {int(match[1]) for match in map(matcher.match, shapes) if match}
        if found:
            return _without_gap(found, "the weights have", "stage")
    return range(1)


def _stack(
    factorization: Factorization, stack: Stack, prefixes: tuple[str, ...], shapes: Mapping[str, Shape]
) -> list[Layer]:
    patterns = [stack.named(prefix) for prefix in prefixes]
    beside = {name.partition("{layer}")[0] + "{layer}" for name in _names(factorization) if "{layer}" in name}
    for pattern in patterns:
        outside = re.sub(r"[^.]*\.?\{layer\}.*", "", pattern)
        starts = "|".join(re.escape(start) for start in (pattern, *(outside + name for name in sorted(beside))))
        matcher = re.compile(f"(?:{starts})\\.".replace(r"\{layer\}", _NUMBER))
        found: dict[int, dict[str, Shape]] = {}
        for name, shape in shapes.items():
            if match := matcher.match(name):
                found.setdefault(int(match[match.lastindex or 0]), {})[name] = shape
        if found:
            numbers = _without_gap(set(found), "the weights have", "layer")
            return [Layer(stack, n, pattern.replace("{layer}", str(n)), outside, found[n]) for n in numbers]
    raise CheckpointError(
        f"no tensor is named like {' or '.join(patterns)}, as factorization {factorization.name} expects: "
        "the weights are not those of the class that config.json names"
    )


def _names(factorization: Factorization) -> Iterator[str]:
    """Every name that a factorization says of what stands in a layer."""
    for sets in (factorization.branches.mlp, factorization.branches.attention):
        for each in as_sets(sets):
            yield from (name for slot in slots(each) for name in slot.tensors)
            norms = map(as_names, (each.norm, each.output_norm, each.inner_norm, each.fed_by))
            yield from (name for names in norms for name in names if name)
