"""Copies: what two models on the Hub have in common as they are stored there, before a weight is read.

Equal SHA-256 of two files mean equal bytes; of other files the Hub tells of which ranges of stored chunks they are
made. The headers, which are read in any case, tell which tensors these are.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hf_lineage.checking.source import FromWeights, OpenedModel
from hf_lineage.checkpoint import Checkpoint, StoredTensor
from hf_lineage.evidence.derivation import Copies, Part, Stretch, find_copies
from hf_lineage.hub import client, xet

LAYER = re.compile(r"(?:.*?\.)?(?:\d+)(?=\.)")
"""What stands in the name of a tensor up to the number of its layer."""
MOST_TERMS = 4096
"""Of one object, which has at most 8,192 chunks."""
ROUNDS = 8
"""How often positions are brought into line with the lengths of all terms."""


class Place(NamedTuple):
    """Bytes of a file, by the object that holds them and where they are there."""

    begin: int
    """The position in the file of the first of them."""
    size: int
    store: str
    start: int


def find_stored_copies(base: OpenedModel, candidate: OpenedModel) -> Copies | None:
    """Return what two models of the Hub have in common as stored; None where nothing is known to be."""
    if not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights):
        return None
    first, second = base.opened.checkpoint, candidate.opened.checkpoint
    places = _stored_places(first, second)
    sizes: dict[Part, int] = defaultdict(int)
    for name, tensor in second.stored.items():
        sizes[part_of(name)] += tensor.size
    of_base = {file: places[file] for file in _files(first) & places.keys()}
    common = find_copies(_stretches(first, _once(of_base)), _stretches(second, places), sizes)
    return common if common.copied else None


def part_of(name: str) -> Part:
    """Return the part of a model to which a tensor belongs, by its name."""
    layer = LAYER.match(name)
    return Part(layer[0], True) if layer else Part(name, False)


def _stored_places(*models: Checkpoint) -> dict[Path, list[Place]]:
    """Where the bytes of the files of both models are stored; of files that one model alone has, by their chunks.

    Chunks are asked for only where both models have such files, since one alone has nothing to be compared with.
    """
    contents = [{file: model.content(file) for file in _files(model)} for model in models]
    same = set.intersection(*(set(filter(client.SHA256.fullmatch, content.values())) for content in contents))
    whole = {file: name for content in contents for file, name in content.items() if name in same}
    asked = [{file: model.chunks(file) for file in _files(model) - whole.keys()} for model in models]
    stored = {file: entry for files in asked for file, entry in files.items() if entry}
    if all(any(files.values()) for files in asked):
        xet.ask_terms(stored.values())
    positions = _positions(term for entry in stored.values() for term in entry.terms or ())
    by_chunks = {file: list(_places(entry.terms or (), positions)) for file, entry in stored.items()}
    return by_chunks | {file: [Place(0, file.stat().st_size, name, 0)] for file, name in whole.items()}


def _files(model: Checkpoint) -> set[Path]:
    return {tensor.file for tensor in model.stored.values()}


def _positions(terms: Iterable[xet.Term]) -> dict[tuple[str, int], int]:
    """Where chunks begin in their objects, in bytes, by object and number of the chunk, for the ends of all terms.

    Terms tell how many bytes there are between two ends. Where two ends are those of no term, the bytes between them
    are spread evenly over the chunks, which is right to within some chunks. An object of which terms contradict each
    other is left out.
    """
    lengths: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    contradicted = set()
    for term in terms:
        ends = term.range.start, term.range.end
        if lengths[term.hash].setdefault(ends, term.unpacked_length) != term.unpacked_length:
            contradicted.add(term.hash)
    return {
        (name, chunk): position
        for name, known in lengths.items()
        if name not in contradicted and len(known) <= MOST_TERMS
        for chunk, position in _spread(known)
    }


def _spread(known: Mapping[tuple[int, int], int]) -> Iterator[tuple[int, int]]:
    """The position of every end of some ranges of chunks, from the number of bytes in each range."""
    ends = np.unique(list(known))
    numbers = {int(end): number for number, end in enumerate(ends)}
    sizes = np.diff(ends) * (sum(known.values()) / sum(stop - start for start, stop in known))
    widest = sorted(known.items(), key=lambda one: one[0][0] - one[0][1])
    for _ in range(ROUNDS):
        for (start, stop), length in widest:
            among = slice(numbers[start], numbers[stop])
            sizes[among] *= length / sizes[among].sum()
    yield from zip(map(int, ends), (0, *map(round, np.cumsum(sizes))), strict=True)


def _places(terms: Iterable[xet.Term], positions: Mapping[tuple[str, int], int]) -> Iterator[Place]:
    """Where the bytes of a file are stored, in order; single chunks are left out: they may be all zero."""
    begin = 0
    for term in terms:
        position = positions.get((term.hash, term.range.start))
        if position is not None and term.range.end - term.range.start > 1:
            yield Place(begin, term.unpacked_length, term.hash, position)
        begin += term.unpacked_length


def _once(places: Mapping[Path, list[Place]]) -> dict[Path, list[Place]]:
    """The same without the bytes that are there more than once: what a model holds repeatedly may be all zero."""
    single = {store: _single(ends) for store, ends in _ends(places).items()}
    return {
        file: [
            Place(place.begin + start - place.start, stop - start, place.store, start)
            for place in own
            for start, stop in _within(single[place.store], place.start, place.start + place.size)
        ]
        for file, own in places.items()
    }


def _ends(places: Mapping[Path, list[Place]]) -> dict[str, list[tuple[int, int]]]:
    """By object, where places begin (1) and end (-1), ascending."""
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for own in places.values():
        for place in own:
            ends[place.store] += [(place.start, 1), (place.start + place.size, -1)]
    return {store: sorted(of_store) for store, of_store in ends.items()}


def _single(ends: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges that one place alone covers."""
    depths = accumulate(step for _, step in ends)
    return [
        (here[0], following[0])
        for depth, (here, following) in zip(depths, pairwise(ends), strict=False)
        if depth == 1 and here[0] < following[0]
    ]


def _within(ranges: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The parts of ascending ranges between two positions."""
    for number in range(bisect.bisect_right(ranges, start, key=itemgetter(1)), len(ranges)):
        if ranges[number][0] >= stop:
            return
        yield max(start, ranges[number][0]), min(stop, ranges[number][1])


def _stretches(model: Checkpoint, places: Mapping[Path, list[Place]]) -> Iterator[Stretch]:
    """The stored bytes of each tensor."""
    by_file: dict[Path, list[tuple[str, StoredTensor]]] = defaultdict(list)
    for name, tensor in model.stored.items():
        by_file[tensor.file].append((name, tensor))
    for file, tensors in by_file.items():
        tensors.sort(key=lambda one: one[1].start)
        at = 0
        for place in places.get(file, []):
            while at < len(tensors) and tensors[at][1].start + tensors[at][1].size <= place.begin:
                at += 1
            for name, tensor in tensors[at:]:
                if tensor.start >= place.begin + place.size:
                    break
                start = max(tensor.start, place.begin)
                stop = min(tensor.start + tensor.size, place.begin + place.size)
                offset = place.start - place.begin
                yield Stretch(part_of(name), place.store, start + offset, stop + offset)
