"""Unlisted pairs: pairs of matrices that no branch of the registry reads and that only the test of adapters needs.

The first matrix of a pair makes values of attention, or hidden units; the second one writes them. Where several numbers
may count the heads of a layer, rows are permuted within the largest part that divides a head for all of them. A test
with fewer permutations is exact, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hf_lineage.architecture import Heads, LayerSet
from hf_lineage.architecture.registry import Slot, setting
from hf_lineage.checking.source import Opened

MOST_COUNTS = 64
"""Entries of a list that counts the heads of blocks: more than any model has."""
MATRIX = 2
"""Dimensions of a linear matrix."""


def outside(base: Opened) -> Iterator[tuple[int, LayerSet]]:
    """Yield the pairs that are in the layers of a base, each with the number of its layer."""
    lora = base.layout.factorization.lora
    counted_by = lora.value_heads
    for layer, reader, writer in _pairs(base, lora.values):
        rows, width = _shape(base, reader)[0], _shape(base, writer)[0]
        size = _part_of_heads(base, counted_by, rows)
        if size > 1:
            heads = Heads(rows // size, size)
            yield layer, _set({"value": reader, "output": writer}, {"value": heads, "query": heads}, width)
    for layer, reader, writer in _pairs(base, lora.units):
        rows, width = _shape(base, reader)[0], _shape(base, writer)[0]
        yield layer, _set({"up": reader, "down": writer}, {"up": Heads(rows, 1)}, width)


def _pairs(base: Opened, names: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield both names of each complete pair, whose rows and columns belong together, in a layer that is known."""
    layers = _layers(base) if names else {}
    for reader, writer in names.items():
        for name in base.checkpoint.tensors:
            prefix = name.removesuffix(f".{reader}.weight")
            other = f"{prefix}.{writer}.weight"
            if prefix == name or prefix not in layers or other not in base.checkpoint.tensors:
                continue
            read, written = _shape(base, name), _shape(base, other)
            if len(read) == len(written) == MATRIX and read[0] == written[1]:
                yield layers[prefix], name, other


def _layers(base: Opened) -> Mapping[str, int]:
    """Return the number of a layer by every beginning of the names of its tensors that no other layer's names have."""
    numbers: dict[str, set[int]] = {}
    for sets in base.layout.branches.values():
        for layer, layer_sets in enumerate(sets):
            for slot in (slot for layer_set in layer_sets for slot in layer_set.slots.values()):
                words = slot.tensor.split(".")
                for end in range(1, len(words)):
                    numbers.setdefault(".".join(words[:end]), set()).add(layer)
    return {prefix: next(iter(layers)) for prefix, layers in numbers.items() if len(layers) == 1}


def _shape(base: Opened, name: str) -> tuple[int, ...]:
    return base.checkpoint.tensors[name].shape


def _part_of_heads(base: Opened, key: str, rows: int) -> int:
    """Return the largest number of rows that divides a head, whatever the number of heads; 1 if that is not known."""
    counted = setting(base.described.config, key)
    counts = counted if isinstance(counted, list) else [counted]
    if len(counts) > MOST_COUNTS or any(type(count) is not int or count < 1 for count in counts):
        return 1
    return math.gcd(*(rows // count for count in counts if rows % count == 0)) or 1


def _set(tensors: Mapping[str, str], heads: Mapping[str, Heads], width: int) -> LayerSet:
    slots = {role: Slot(name, (role,), role) for role, name in tensors.items()}
    return LayerSet(slots, None, None, None, heads=heads, width=width)
