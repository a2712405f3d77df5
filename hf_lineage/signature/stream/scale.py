"""Stream: how large the residual stream is where a branch is added to it, from a few rows of what else writes into it.

What a branch writes counts beside the stream that it joins: units that are stored and alive change nothing in a model
whose embedding, or whose attention, is a thousand times as loud. An estimate within a small factor is enough, so that
only a few rows of each matrix are read, drawn anew for every check, so nobody can make only those quiet.
After a norm (gains folded) a branch reads x ~ N(0, I). Sizes below are the expected norms of what is added to it.

It is not known how much a mixer other than attention writes, or a projection before the first layer. But such a tensor
multiplies its input by about its gain, and a chain of them by the product. The product alone says nothing. Compared
with that of the base, it tells whether the stream may be so loud that the branches are lost in it.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import LayerSet, Layout
from hf_lineage.architecture.registry import BRANCH_ROLES, MLP_READERS, PATHS, as_names, setting
from hf_lineage.checkpoint import Checkpoint, StoredTensor, as_stored, single
from hf_lineage.signature.recipe import Vector
from hf_lineage.signature.stream.drawn_parts import DECODED_EVERY, MOST_DECODED, ROWS_READ, Draw, bounded
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


USUAL = 0.75
"""The quantile of the sizes of token rows that counts as the size of the embedding: neither a few loud tokens that are
never used, nor many quiet ones, decide it."""
WIDTH_ROOT, NORMALISED = "width_root", "normalised"
"""Stand for embedding rows that are multiplied by the root of the width, and for rows divided by their size."""


@dataclass(frozen=True)
class MeasuredStream:
    """The residual stream of a model that was run."""

    sizes: Mapping[int, float]
    """By the number of a layer, how large the stream was that it joined."""

    def joins(self, _path: str, layers: Sequence[int]) -> Vector:
        """Return what a path is added to in some layers, (L, 4), as `Stream.joins` does."""
        return np.array([(bounded(self.sizes.get(layer, 0.0)), 0.0, 0.0, 0.0) for layer in layers]).reshape(-1, 4)


@dataclass(frozen=True)
class Stream:
    """The residual stream of a model: how large it is at the beginning, and what the branches of its layers add."""

    checkpoint: Checkpoint
    layout: Layout
    config: Mapping[str, Any]
    seed: int
    """The seed of the rows that are read."""

    def joins(self, path: str, layers: Sequence[int]) -> Vector:
        """Return what a path is added to in some layers, (L, 4), and ask for all that is read of it at once.

        It is how large the stream is before the first layer, how much the other branches of a layer write, and how
        strongly acts what is not measured (`Unmeasured.gains`). Where a norm of the stream itself feeds the branch, the
        stream has the size of its gain, whatever came before.
        """
        self._fetch([layer_set for layer in layers for layer_set in self._others(path, layer)])
        gains = Unmeasured(self.checkpoint, self.layout, self._draw).gains(path, layers)
        return np.array([self._joined(path, *each) for each in zip(layers, gains, strict=True)])

    def _joined(self, path: str, layer: int, unmeasured: Vector) -> tuple[float, float, float, float]:
        fed_by = next((layer_set.fed_by for layer_set in self.layout.sets(path)[layer]), None)
        if fed_by:
            return self._draw.length(fed_by), 0.0, 0.0, 0.0
        others = bounded(math.hypot(*map(self._draw.written, self._others(path, layer))))
        return self._begins, others, *unmeasured.tolist()

    @functools.cached_property
    def _draw(self) -> Draw:
        return Draw(self.checkpoint, self.layout, self.seed)

    @functools.cached_property
    def _begins(self) -> float:
        """How large the stream is before the first layer; 0 if the registry names no embedding of its width."""
        factorization, tensors = self.layout.factorization, self.checkpoint.tensors
        norms = (f"{name}.weight" for name in as_names(factorization.embedding_norm))
        if norm := next((name for name in norms if name in tensors), None):
            return self._draw.length(norm)
        if NORMALISED in as_names(factorization.embedding_scale):
            return math.sqrt(self.layout.width)
        names = (f"{name}.weight" for name in as_names(factorization.embedding))
        name = next((name for name in names if name in tensors), None)
        if name is None or tensors[name].shape[1:] != (self.layout.width,):
            return 0.0
        read = self._some_rows(name)
        sizes = np.where(np.isfinite(read).all(axis=1), np.linalg.norm(read, axis=1), LARGEST)
        return bounded(float(np.quantile(sizes, USUAL)) * self._scale) if len(sizes) else 0.0

    def _some_rows(self, name: str) -> NDArray[np.float64]:
        """A few rows of a table, or all of one that has to be decoded as a whole; none if that is too large."""
        parts, tensor = self.checkpoint.row_parts(name), self.checkpoint.tensors[name]
        if not parts:
            whole = not tensor.refusal and tensor.numbers <= MOST_DECODED
            return single(self.checkpoint.read(name)).astype(np.float64) if whole else np.zeros((0, self.layout.width))
        runs = self._draw.runs(name, tensor.shape[0], ROWS_READ)
        pieces = [part.rows(run) for run in runs for part in parts]
        self.checkpoint.prefetch_pieces(pieces, gap=0)
        return single(self.checkpoint.read_pieces(name, pieces)).astype(np.float64)

    @property
    def _scale(self) -> float:
        """What the rows of the embedding are multiplied with."""
        names = as_names(self.layout.factorization.embedding_scale)
        stated = (setting(self.config, name) for name in names)
        value = next((value for value in stated if value is not None), WIDTH_ROOT in names)
        if isinstance(value, bool):
            return math.sqrt(self.layout.width) if value else 1.0
        return abs(float(value)) if isinstance(value, int | float) else 1.0

    def _fetch(self, sets: Sequence[LayerSet]) -> None:
        """Ask for what is read of some sets in the background; between its rows lies nearly all of a narrow model."""
        self.checkpoint.prefetch_pieces(itertools.chain(*map(self._draw.stored, sets)), gap=0)

    def _others(self, path: str, layer: int) -> Iterator[LayerSet]:
        """The sets of the other branches of a layer: one drawn expert for each router, and no stacked experts."""
        for branch in BRANCH_ROLES:
            every = self.layout.branches[branch][layer] if branch != PATHS[path].branch else ()
            sets = [layer_set for layer_set in every if not layer_set.stacked]
            for router in dict.fromkeys(layer_set.router for layer_set in sets):
                alike = [layer_set for layer_set in sets if layer_set.router == router]
                yield from alike if router is None else [alike[self._draw.number(f"{router} expert", len(alike))]]
