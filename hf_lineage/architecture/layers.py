"""Layers: those of a checkpoint, by the names of its tensors, stack by stack."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hf_lineage.architecture.registry import slots
from hf_lineage.architecture.schema import Factorization, as_names, as_stacks
from hf_lineage.architecture.schema import prefixes as prefixes_of
from hf_lineage.errors import CheckpointError

Shape = tuple[int, ...]
KERNEL = 4
"""Dimensions of a convolution's weights, (out, in, height, width); its taps are summed."""
_NUMBER = r"(\d{1,6})"


@dataclass(frozen=True)
class Stack:
    """Consecutive layers of a model: those of the encoder, of the decoder, or of one stage."""

    name: str
    stage: int

    def named(self, name: str) -> str:
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
    number: int
    """The number of the layer in its stack."""
    prefix: str
    outside: str
    """The prefix of names with `{layer}`: that of the layer without its last name and its number."""
    shapes: Mapping[str, Shape]
    """Only this layer's tensors, by full name, as stored."""

    def numbered(self, pattern: str) -> str:
        """Return a prefix with the numbers of this layer and of its stage."""
        return self.stack.named(pattern).replace("{layer}", str(self.number))

    def full(self, name: str) -> str:
        """Return the full name of a tensor or, still with `{expert}`, of several."""
        beside = self.outside + name.replace("{layer}", str(self.number))
        return beside if "{layer}" in name else f"{self.prefix}.{name}"

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


def _without_gap(numbers: set[int], where: str, what: str) -> range:
    """Return all numbers from 0 to the largest one; raise CheckpointError if one of them is missing."""
    everything = range(max(numbers, default=-1) + 1)
    missing = next((number for number in everything if number not in numbers), None)
    if missing is not None:
        raise CheckpointError(f"{where} no {what} {missing} but {what} {everything[-1]}; have the weights saved again")
    return everything


def find_layers(factorization: Factorization, shapes: Mapping[str, Shape]) -> list[Layer]:
    """Return the layers of every stack, each under the first of its prefixes that the checkpoint has.

    Raise CheckpointError if it has none of them.
    """
    layers = [
        layer
        for stack, patterns in as_stacks(factorization.layers).items()
        for stage, prefixes in _stages(patterns, shapes)
        for layer in _stack(factorization, Stack(stack, stage), prefixes, shapes)
    ]
    if not layers:
        raise _none(factorization, prefixes_of(factorization))
    return layers


def _stages(patterns: tuple[str, ...], shapes: Mapping[str, Shape]) -> list[tuple[int, tuple[str, ...]]]:
    """Return number and prefixes of every stage in the names on disk; stage 0 alone where there are no stages.

    There are stages where a prefix has `{stage}` or `{block}`. Every `{stage}` has layers, and the weights lack none of
    them. Blocks may stand within each other, and only some of them have layers.
    """
    if any("{block}" in pattern for pattern in patterns):
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
    patterns = [stack.named(prefix) for prefix in prefixes]
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
    return CheckpointError(
        f"no tensor is named like {' or '.join(patterns)}, as factorization {factorization.name} expects: "
        "the weights are not those of the class that config.json names"
    )


def named_tensors(factorization: Factorization) -> Iterator[str]:
    """Yield every tensor that a factorization names, relative to the layer."""
    yield from _in_branches(factorization)
    for matrices in factorization.branches.everything():
        others = map(as_names, (matrices.where, matrices.unless))
        yield from (name for names in others for name in names if name)


def _in_branches(factorization: Factorization) -> Iterator[str]:
    """Yield every tensor name in the branches of a factorization."""
    for matrices in factorization.branches.everything():
        yield from (name for slot in slots(matrices) for name in slot.tensors)
        norms = map(as_names, (matrices.norm, matrices.output_norm, matrices.inner_norm))
        yield from (name for names in norms for name in names if name)
