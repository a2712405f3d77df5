"""Drawn parts: a few heads or hidden units of a branch, which show how much the branch adds to the stream.

An estimate within a small factor is enough. Whoever could predict what is drawn could make only that part quiet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import KERNEL, LayerSet, Layout, is_transposed
from hf_lineage.architecture.registry import MLP_READERS, Slot
from hf_lineage.checkpoint import Checkpoint, StoredTensor, single
from hf_lineage.signature.products import gain, unpacked
from hf_lineage.signature.recipe import Vector, random_stream
from hf_lineage.signature.writers import LARGEST

ROWS_READ, PLACES = 16, 4
"""How many rows of a matrix are read, and of how many heads, or from how many places among hidden units."""
OF_WIDTH = 16
"""Of a narrow stream one row in so many is read, so that what is read stays a small part of each layer."""
DECODED_EVERY = 8
"""Matrices that have to be decoded as a whole are read of one set in so many, and only if they are not too large."""
MOST_DECODED = 2**26
SQUARED = 0.5
"""About E[act(z)²] / E[z²] of usual activations."""
NORM_EPSILON = 1e-6
"""The ε that norms commonly add to a mean square before they divide by its root."""
Numbers = NDArray[np.int64]


class Lines(NamedTuple):
    """Some rows of a matrix, or some columns of it, (out, in)."""

    of: LayerSet
    slot: Slot
    numbers: Numbers
    """(n,): ascending."""
    axis: int
    """0 for rows, 1 for columns."""
    norm: str | None = None
    """The norm whose output they read."""


class Parts(NamedTuple):
    """Some of the interchangeable parts of a branch: heads, or hidden units."""

    readers: tuple[Lines, ...]
    writer: Lines
    chosen: int
    of: int

    @property
    def lines(self) -> tuple[Lines, ...]:
        """All that is read of them."""
        return *self.readers, self.writer


@dataclass(frozen=True)
class Draw:
    """What is drawn of the matrices of a model, by a seed."""

    checkpoint: Checkpoint
    layout: Layout
    seed: int

    def parts(self, layer_set: LayerSet) -> Parts:
        """A few heads or hidden units, drawn at random; of attention only the values are written into the stream."""
        attention = "value" in layer_set.slots
        heads = layer_set.heads["value" if attention else "up"]
        writer = layer_set.slots["output" if attention else "down"]
        each = few(layer_set.width) // PLACES
        drawn = self.runs(f"{writer.tensor} parts", heads.count, 1 if attention else each)
        chosen = np.concatenate([np.arange(run.start, run.stop) for run in drawn])
        if not attention:
            readers = tuple(self._reads(layer_set, role, chosen) for role in MLP_READERS if role in layer_set.slots)
            return Parts(readers, Lines(layer_set, writer, chosen, 1), len(chosen), heads.count)
        served = layer_set.heads["query"].count // heads.count * heads.size
        first = self.number(f"{writer.tensor} row", max(heads.size - each, 0) + 1)
        rows = chosen[:, None] * heads.size + np.arange(first, min(first + each, heads.size))
        reader = self._reads(layer_set, "value", rows.ravel())
        columns = (chosen[:, None] * served + np.arange(served)).ravel()
        return Parts((reader,), Lines(layer_set, writer, columns, 1), len(chosen), heads.count)

    def written(self, layer_set: LayerSet) -> float:
        """How much a matrix set writes; 0 where its matrices are not read."""
        drawn = self.parts(layer_set)
        carried = np.full(drawn.chosen, 1.0 if "value" in layer_set.slots else SQUARED)
        for reader in drawn.readers:
            carried *= self._squares(reader).reshape(drawn.chosen, -1).mean(axis=1)
        writes = self._squares(drawn.writer).reshape(drawn.chosen, -1).sum(axis=1)
        given = math.sqrt(float(carried @ writes) * drawn.of / drawn.chosen)
        if layer_set.output_norm is None:
            return given
        given, gains = given / math.sqrt(layer_set.width), self.length(layer_set.output_norm)
        return gains * (given / math.hypot(given, math.sqrt(NORM_EPSILON)) if layer_set.normed else given)

    def stored(self, layer_set: LayerSet) -> Iterator[StoredTensor]:
        """All that is read of a matrix set, as it is stored."""
        parts = self.parts(layer_set)
        norms = *(reader.norm for reader in parts.readers), layer_set.output_norm
        decoded = (lines.slot.tensor for lines in parts.lines if self._decodes(lines))
        yield from self.checkpoint.parts([*filter(None, norms), *decoded]).values()
        for lines in parts.lines:
            yield from self.pieces(lines)[0]

    def pieces(self, lines: Lines) -> tuple[list[StoredTensor], slice]:
        """The rows of a stored matrix that are read, and which part of the other axis; no rows of one to be decoded."""
        name = lines.slot.tensor
        parts = self.checkpoint.row_parts(name)
        if not parts:
            return [], slice(None)
        if self._by_columns(lines):
            run = self.run(name, parts[0].shape[0])
            return [part.rows(run) for part in parts], run
        runs = np.split(lines.numbers, np.flatnonzero(np.diff(lines.numbers) > 1) + 1)
        return [part.rows(slice(int(run[0]), int(run[-1]) + 1)) for run in runs for part in parts], slice(None)

    def length(self, norm: str) -> float:
        """The size of the output of a norm, which is that of its gain."""
        stored = single(self.checkpoint.read(norm)).astype(np.float64)
        return bounded(float(np.linalg.norm(stored + (self.layout.factorization.gain == "one_plus"))))

    def run(self, name: str, rows: int) -> slice:
        """Return some consecutive rows of a matrix with so many."""
        return self.runs(name, rows, few(rows), places=1)[0]

    def runs(self, purpose: str, count: int, length: int, places: int = PLACES) -> list[slice]:
        """Return ascending runs of consecutive numbers below a count, each in its own part of the range."""
        length = min(length, count)
        ends = np.linspace(0, count, min(places, count // length) + 1).astype(int).tolist()
        starts = [a + self.number(f"{purpose} {a}", b - a - length + 1) for a, b in itertools.pairwise(ends)]
        return [slice(start, start + length) for start in starts]

    def number(self, purpose: str, count: int) -> int:
        """Return a number below a count, which depends on the seed and on what it is for."""
        return int(random_stream(f"stream {self.seed} {purpose}").random_raw() % count)

    def _reads(self, layer_set: LayerSet, role: str, rows: Numbers) -> Lines:
        """Some rows of a reader, by their places in a matrix that may hold several roles."""
        slot = layer_set.slots[role]
        stored = self.checkpoint.tensors[slot.tensor].shape[is_transposed(self.layout.factorization, slot)]
        places = unpacked(np.arange(stored)[:, None], layer_set, slot).ravel()[rows]
        return Lines(layer_set, slot, places, 0, slot.latent[1] if slot.latent else layer_set.norm or layer_set.fed_by)

    def _squares(self, lines: Lines) -> Vector:
        """The squared norms of some rows or columns of a matrix, a gain folded in; 0 where they are not read."""
        name, (pieces, across) = lines.slot.tensor, self.pieces(lines)
        tensor = self.checkpoint.tensors[name]
        if not pieces and not self._decodes(lines):
            return np.zeros(len(lines.numbers))
        read = single(self.checkpoint.read_pieces(name, pieces) if pieces else self.checkpoint.read(name))
        matrix = read.sum(axis=(2, 3)) if read.ndim == KERNEL else read
        if self._by_columns(lines):
            matrix = matrix[:, lines.numbers].T
        elif not pieces:
            matrix = matrix[lines.numbers]
        squares = matrix.astype(np.float64) ** 2
        if lines.norm:
            squares *= gain(self.layout, lines.of, lines.norm, self.checkpoint.read)[across].astype(np.float64) ** 2
        whole: Vector = squares.mean(axis=1) * tensor.shape[0 if self._by_columns(lines) else 1]
        return whole

    def _decodes(self, lines: Lines) -> bool:
        """Whether a matrix is read that has to be decoded as a whole: all of a set, or none."""
        name, attention = lines.slot.tensor, "value" in lines.of.slots
        tensor, writer = self.checkpoint.tensors[name], lines.of.slots["output" if attention else "down"].tensor
        if self.checkpoint.row_parts(name) or tensor.refusal or math.prod(tensor.shape) > MOST_DECODED:
            return False
        return not self.number(f"{writer} decoded", DECODED_EVERY)

    def _by_columns(self, lines: Lines) -> bool:
        """Whether these are columns of the matrix as it is stored."""
        return bool(lines.axis) != is_transposed(self.layout.factorization, lines.slot)


def few(width: int) -> int:
    """How many rows are read of a matrix that has as many as a stream of some width has coordinates."""
    return min(ROWS_READ, max(PLACES, width // OF_WIDTH))


def bounded(size: float) -> float:
    """Return a size, limited; 0, for not known, if it is not finite, which it never is in a model that works."""
    return min(size, LARGEST) if math.isfinite(size) else 0.0
