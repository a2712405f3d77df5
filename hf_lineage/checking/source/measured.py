"""Measured: which matrices of a layout write into the stream, and what their parts wrote in place of expectations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hf_lineage.architecture import LayerSet, Layout
from hf_lineage.architecture.registry import PATHS
from hf_lineage.running.executed import Arrays, Writer

WRITERS = {"mlp": "down", "value_output": "output"}
"""By path the role that writes into the stream."""
LEAST = 1e-3
"""A layer that writes less than this share of the stream does not tell what the model computes."""


def list_writers(layout: Layout) -> Iterator[Writer]:
    """Yield every matrix that writes into the stream, along the paths whose parts are measured."""
    for path, role in WRITERS.items():
        for layer, sets in enumerate(layout.sets(path)):
            for number, layer_set in enumerate(sets):
                if role not in layer_set.slots:
                    continue
                experts = int(np.prod(layer_set.stacked)) if layer_set.stacked else 1
                parts = layer_set.units // layer_set.part * experts
                tensor = layer_set.slots[role].tensor
                yield Writer(
                    part_key(path, layer, number), layer, tensor, layer_set.part, parts, experts, layer_set.expert
                )


def part_key(path: str, layer: int, number: int) -> str:
    """Return the name under which is told what a set of a layer writes along a path."""
    return f"{path} {layer} {number}"


def with_measured(layout: Layout, sizes: Arrays, shares: Mapping[int, float]) -> Layout:
    """Return a layout whose parts weigh what they wrote, by the names of `part_key`.

    Layers whose units wrote less than LEAST of the stream weigh nothing.
    """
    branches = dict(layout.branches)
    for path in WRITERS:
        branch = PATHS[path].branch
        branches[branch] = tuple(
            tuple(
                _with(layer_set, sizes.get(part_key(path, layer, number)), shares.get(layer, 1.0))
                for number, layer_set in enumerate(sets)
            )
            for layer, sets in enumerate(layout.sets(path))
        )
    return replace(layout, branches=branches)


def _with(layer_set: LayerSet, sizes: Any, share: float) -> LayerSet:
    return layer_set if sizes is None else replace(layer_set, measured=sizes * (share >= LEAST))


def shares_of_stream(layout: Layout, sizes: Arrays, streams: Mapping[int, float]) -> dict[int, float]:
    """Return by layer the root of the summed squares of what its hidden units write, as a share of the stream."""
    shares = {}
    for layer in layout.numbers("mlp"):
        squares = sum(
            float(np.square(sizes[part_key("mlp", layer, n)]).sum()) for n in range(len(layout.sets("mlp")[layer]))
        )
        shares[layer] = float(np.sqrt(squares)) / max(streams.get(layer, 0.0), 1e-30)
    return shares
