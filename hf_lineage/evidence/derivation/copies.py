"""Copies: which parts of a model hold the same bytes as parts of its base, by how both are stored.

A stored stretch is named by the object that holds it and by where it begins there, so equal names mean equal bytes. It
shows copies alone: a part of which no stretch is common may be equal all the same.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

COPIED = 0.9
"""Of the bytes of a part: where a copy begins or ends in a file, chunks have other bytes beside it in them."""


class Part(NamedTuple):
    """A layer, by what stands before and at its number in names of tensors, or a tensor in no layer, by its name."""

    name: str
    is_layer: bool


class Stretch(NamedTuple):
    """Bytes of a part of a model in a stored object."""

    part: Part
    store: str
    start: int
    stop: int


class Source(NamedTuple):
    """The part of the base from which most bytes of a part are, and how much of it these are."""

    part: Part
    share: float


@dataclass(frozen=True)
class Copies:
    """What a model and its base have in common as stored."""

    share: float
    """Of all bytes of the model's tensors."""
    copied: Mapping[Part, Source]
    """By part of the model, where the part is from: at least 90 % of its bytes are the same."""
    others: tuple[Part, ...]
    """Parts of which fewer bytes are known to be the same."""

    @property
    def layers(self) -> Mapping[str, Source]:
        """The copied layers, by name."""
        return {part.name: source for part, source in self.copied.items() if part.is_layer}

    @property
    def all_layers(self) -> bool:
        """Whether every layer is copied, and there is one."""
        return bool(self.layers) and not any(part.is_layer for part in self.others)


def find_copies(base: Iterable[Stretch], candidate: Iterable[Stretch], sizes: Mapping[Part, int]) -> Copies:
    """Return what is common; `sizes` has the bytes of every part of the candidate.

    Stretches of the base do not meet each other, so that bytes which occur in it repeatedly have to be left out before:
    they may be all zero, and show no copy.
    """
    stored: dict[str, list[Stretch]] = defaultdict(list)
    for stretch in base:
        stored[stretch.store].append(stretch)
    for stretches in stored.values():
        stretches.sort(key=_start)
    common: dict[Part, Counter[Part]] = defaultdict(Counter)
    for stretch in candidate:
        for source, size in _overlaps(stored.get(stretch.store, []), stretch):
            common[stretch.part][source] += size
    sources = {part: _source(common[part], size) for part, size in sizes.items() if size and common.get(part)}
    copied = {part: source for part, source in sources.items() if source.share >= COPIED}
    share = sum(counter.total() for counter in common.values()) / max(1, sum(sizes.values()))
    return Copies(min(1.0, share), copied, tuple(part for part in sizes if part not in copied))


def _start(stretch: Stretch) -> int:
    return stretch.start


def _source(common: Counter[Part], size: int) -> Source:
    ((part, most),) = common.most_common(1)
    return Source(part, min(1.0, most / size))


def _overlaps(stretches: list[Stretch], stretch: Stretch) -> Iterator[tuple[Part, int]]:
    """The parts of the base that hold some of these bytes, and how many."""
    first = max(0, bisect.bisect_right(stretches, stretch.start, key=_start) - 1)
    for other in stretches[first:]:
        if other.start >= stretch.stop:
            return
        size = min(other.stop, stretch.stop) - max(other.start, stretch.start)
        if size > 0:
            yield other.part, size
