"""Unaccounted: stored tensors of a model that are neither its class's own nor equal to the base's.

A loader may rename them to what the class builds, and take them in place of what was compared: they verify nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hf_lineage.checking.source import Opened, OpenedModel
from hf_lineage.checkpoint import TensorInfo
from hf_lineage.errors import printable

MOST_BYTES = 2**28
"""Of all such tensors together; what lies beyond is not held against the base."""


def doubts(base: OpenedModel, candidate: OpenedModel) -> Iterator[str]:
    """Yield a sentence about the unaccounted tensors of a candidate, if it has any."""
    names = candidate.unaccounted
    if names and base.reopen and candidate.reopen:
        unlike = set(unaccounted(base.reopen(), candidate.reopen()))
        names = tuple(name for name in names if name in unlike)
    if names:
        yield (
            f"{len(names)} stored tensors, such as {printable(names[0], 200)}, are not among those that the class "
            "saves, and the base has no equal ones: which of them a loader takes is not known; remove them"
        )


def unaccounted(base: Opened, candidate: Opened) -> Iterator[str]:
    """Yield the names of tensors that are not the class's own, without those that the base has, bit for bit."""
    own, others = candidate.unaccounted, {**base.checkpoint.tensors, **base.unaccounted}
    alike = [name for name in own if name in others and _forms(base, others[name]) == _forms(candidate, own[name])]
    sizes = np.cumsum([sum(candidate.checkpoint.stored[part].size for part in own[name].parts) for name in alike])
    read = alike[: int(np.searchsorted(sizes, MOST_BYTES, side="right"))]
    here, there = candidate.checkpoint.with_tensors(own), base.checkpoint.with_tensors(others)
    here.prefetch(*read)
    there.prefetch(*read)
    equal = {name for name in read if all(map(np.array_equal, here.read_parts(name), there.read_parts(name)))}
    return (name for name in own if name not in equal)


def _forms(model: Opened, info: TensorInfo) -> list[tuple[str, tuple[int, ...]]]:
    """The number format and the shape of each stored part."""
    return [(part.dtype, part.shape) for part in map(model.checkpoint.stored.__getitem__, info.parts)]
