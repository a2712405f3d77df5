"""In memory: the places of published tensors in a file that holds them as transformers does in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.loading.class_tensors import COUNTED, NUMBER, Patterns, numberless
from hf_lineage.errors import CheckpointError, printable

MOST_EXPERTS = 2**12
"""The most experts of one stack, ten times those of the largest models."""


class Place(NamedTuple):
    """The place of a published tensor in memory: all of some tensors, one below the other, or rows of one."""

    names: tuple[str, ...]
    rows: slice | None
    expert: int | None
    """The number of the expert in a stack that has these rows."""


def places(patterns: Patterns, shapes: Mapping[str, Shape]) -> dict[str, Place]:
    """Return the place of each published tensor, given the patterns of names in memory, with blanks between them.

    A tensor stored under both names is left out, and is two. Raise CheckpointError for shapes that are not of rows.
    """
    by_first, found = {names.split()[0]: (names.split(), of) for names, of in patterns.items()}, dict[str, Place]()
    present = {*shapes, *(COUNTED.sub("*", name) for name in shapes)}
    for name, shape in shapes.items():
        numbers = (*NUMBER.findall(name), "*")
        of_name = by_first.get(numberless(name), ((), ()))
        sources, published = (tuple(one.replace("*", "{}").format(*numbers) for one in names) for names in of_name)
        if not sources or not shapes.keys() >= {*sources} or not present.isdisjoint(published):
            continue
        stacked, parts = "*" in published[0], len(published)
        if not stacked and parts + len(sources) == 2:
            found[published[0]] = Place(sources, None, None)
            continue
        alike = len({(len(shapes[one]), *shapes[one][1:]) for one in sources}) == 1
        whole = len(shape) > stacked and 0 not in shape and not shape[stacked] % parts
        if not (alike and whole and shape[0] ** stacked <= MOST_EXPERTS):
            raise CheckpointError(
                f"{printable(name, 200)} has shape {shape}, which does not fit the published "
                f"{' and '.join(published)}: the weights are not those of the class that config.json names"
            )
        height = shape[stacked] // parts
        for expert in range(shape[0]) if stacked else (None,):
            for start, one in zip(range(0, shape[stacked], height), published, strict=True):
                rows = None if sources[1:] else slice(start, start + height)
                found[one.replace("*", str(expert))] = Place(sources, rows, expert)
    return found
