"""Writers: which matrices of a layout write into the stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hf_lineage.architecture import Layout
from hf_lineage.running.executed import Writer

WRITERS = {"mlp": "down", "value_output": "output"}
"""By path the role that writes into the stream."""


def list_writers(layout: Layout) -> Iterator[Writer]:
    """Yield every matrix that writes into the stream, along the paths whose parts can be held."""
    for path, role in WRITERS.items():
        for layer, sets in enumerate(layout.sets(path)):
            for number, layer_set in enumerate(sets):
                if role not in layer_set.slots:
                    continue
                experts = int(np.prod(layer_set.stacked)) if layer_set.stacked else 1
                parts, tensor = layer_set.units // layer_set.part * experts, layer_set.slots[role].tensor
                yield Writer(part_key(path, layer, number), tensor, layer_set.part, parts, experts, layer_set.expert)


def part_key(path: str, layer: int, number: int) -> str:
    """Return the name under which parts of a set of a layer are held along a path."""
    return f"{path} {layer} {number}"
