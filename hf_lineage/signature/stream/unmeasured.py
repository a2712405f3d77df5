"""Unmeasured tensors: how strongly the tensors outside of all branches act, by the product of their gains.

It is not known how much a mixer other than attention writes, or a projection before the first layer. But such a tensor
multiplies its input by about its gain, and a chain of them by the product. The product alone says nothing. Compared
with that of the base, it tells whether the stream may be so loud that the branches are lost in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.architecture import Layout
from hf_lineage.architecture.registry import BRANCH_ROLES, MLP_READERS, PATHS, as_names
from hf_lineage.checkpoint import Checkpoint, StoredTensor, as_stored, single
from hf_lineage.signature.recipe import Vector
from hf_lineage.signature.stream.drawn_parts import DECODED_EVERY, MOST_DECODED, ROWS_READ, Draw
from hf_lineage.signature.writers import LARGEST

AT_ONCE = 2**12
"""Numbers of a matrix that are read at least, and of a vector at most, unless it has fewer."""
INDEX = re.compile(r"(_ids|_index|_tracked)$")
"""The end of the name of an index: it numbers something, multiplies nothing and is not a parameter of any class."""
OF_A_LIST = re.compile(r"\.\d+\.")
"""Part of the names in another tower of layers, whose input is not the stream and whose output is its own."""


@dataclass(frozen=True)
class Unmeasured:
    """The tensors of a model that are in no branch; some numbers of each are read."""

    checkpoint: Checkpoint
    layout: Layout
    draw: Draw

    def gains(self, path: str, layers: Sequence[int]) -> Vector:
        """Return how strongly they act outside of the layers, and in each of some layers, (L, 2), as logarithms.

        It is the sum of the logarithms of all gains above 1, so a quiet tensor does not cancel a loud one.
        """
        inside = [tuple(self._inside(path, layer)) for layer in layers]
        outside = tuple(self._outside())
        every = (*outside, *(name for names in inside for name in names))
        self.checkpoint.prefetch_pieces(piece for name in every for piece in self._pieces(name))
        before = self._together(outside)
        return np.array([(before, self._together(names)) for names in inside]).reshape(-1, 2)

    def _inside(self, path: str, layer: int) -> Iterator[str]:
        """What a layer has in no branch, and the stacked experts of its other branches, which are not measured."""
        others = (branch for branch in BRANCH_ROLES if branch != PATHS[path].branch)
        stacked = (each for branch in others for each in self.layout.branches[branch][layer] if each.stacked)
        names = (*self.layout.beside[layer], *(name for each in stacked for name in each.tensors))
        own = set(self._read_biases(path, layer))
        decoded = not self.draw.number(f"layer {layer} decoded", DECODED_EVERY)
        yield from (name for name in dict.fromkeys(names) if name not in own and self._is_read(name, decoded))

    def _read_biases(self, path: str, layer: int) -> Iterator[str]:
        """The biases of hidden units, which are measured with the units of a path; dead units may have large ones."""
        for layer_set in self.layout.sets(path)[layer]:
            readers = (layer_set.slots[role].tensor for role in MLP_READERS if role in layer_set.slots)
            yield from (layer_set.biases[name] for name in readers if name in layer_set.biases)

    def _outside(self) -> Iterator[str]:
        """The tensors outside of all layers and towers, except the embedding, which is measured, and its reader."""
        known = self.layout.factorization
        tokens = (*as_names(known.embedding), *as_names(known.embedding_norm), *as_names(known.lora.unembedding))
        measured = {f"{name}.weight" for name in tokens}
        names = (name for name in self.layout.outside if name not in measured and not OF_A_LIST.search(name))
        yield from (name for name in names if self._is_read(name))

    def _is_read(self, name: str, decoded: bool = True) -> bool:
        """Whether a tensor is read: always in part, but if it has to be decoded as a whole, only a small one."""
        tensor = self.checkpoint.tensors[name]
        if tensor.refusal or not tensor.numbers or INDEX.search(name):
            return False
        return self._in_part(name) or (decoded and tensor.numbers <= MOST_DECODED)

    def _in_part(self, name: str) -> bool:
        """Whether some numbers of a tensor can be read by themselves."""
        return self.checkpoint.tensors[name].decode is as_stored or bool(self.checkpoint.row_parts(name))

    def _together(self, names: Iterable[str]) -> float:
        return sum((max(0.0, self._gain(name)) for name in names), start=0.0)

    def _gain(self, name: str) -> float:
        """The logarithm of about the factor by which a tensor multiplies the root mean square of its input."""
        tensor = self.checkpoint.tensors[name]
        pieces = self._pieces(name) if self._in_part(name) else []
        read = self.checkpoint.read_pieces(name, pieces) if pieces else self.checkpoint.read(name)
        numbers = single(read).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = float(np.square(numbers).mean()) * math.prod(tensor.shape[1:])
        return 0.5 * math.log(min(squares, LARGEST)) if squares > 0 else 0.0

    def _pieces(self, name: str) -> list[StoredTensor]:
        """A whole vector, some consecutive numbers of a matrix, or all from which one is decoded."""
        stored = [self.checkpoint.stored[part] for part in self.checkpoint.tensors[name].parts]
        if self.checkpoint.tensors[name].decode is not as_stored:
            rows = self.checkpoint.row_parts(name)
            start = self.draw.number(name, max(stored[0].shape[0] - ROWS_READ, 0) + 1) if rows else 0
            return [part.rows(slice(start, start + ROWS_READ)) for part in rows] or stored
        (whole,) = stored
        count = max(ROWS_READ * whole.shape[-1], AT_ONCE) if len(whole.shape) > 1 else whole.numbers
        start = self.draw.number(name, max(whole.numbers - count, 0) + 1)
        return [replace(whole, shape=(whole.numbers,)).rows(slice(start, start + count))]
