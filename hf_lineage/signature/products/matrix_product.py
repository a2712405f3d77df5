"""Matrix product: one addend of a branch product, its two matrices as they are stored, and how to prepare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint import StoredRows
from hf_lineage.signature.computing import Device, Scratch, Share, Tensor, dots, on_device, on_host, zeros
from hf_lineage.signature.recipe import Array, Vector

TILE = 2**18
"""Numbers of each matrix that are prepared at a time: a piece of both that stays in a CPU's cache."""
UNITS = 2048
"""Hidden units of a writer of which some rows are taken at a time."""
SMALLEST, LARGEST = 1e-12, 1e17
"""A norm between these is correct in float32: no square underflowed and none overflowed."""
ON_HOST = frozenset({"bias", "odds", "measured"})
"""Values by hidden unit, from which NumPy computes the activity."""
FEWEST = 4
"""Tiles of a term, so that there is work for more threads than one."""


class Tile(NamedTuple):
    """Some hidden units of a term, prepared, in float32, in memory as they are stored.

    It lives until the next one is asked for: fresh memory for each would cost more than the arithmetic.
    """

    units: slice
    out: Tensor
    """(t, width): outᵀ."""
    inn: Tensor
    """(t, width)"""
    means: tuple[Tensor, Tensor]
    """(t,) each: the means that centring subtracted from the rows of `out` and of `inn`."""
    inside: tuple[Vector, Vector] | None
    """(t,) each: the norms of the rows that the activation acts on, and what β of the norm adds to their output."""
    gate: Tensor | None
    """(t, width): the other reader of gated units; None where it is not asked for."""


def pieces(length: int, size: int) -> list[slice]:
    """Return consecutive slices that cover a length, `size` long each, the last one perhaps shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def row_norms(rows: Tensor) -> Vector:
    """Return the Euclidean norm of every row (t,), also where squares leave the range of float32."""
    norms: Vector = np.sqrt(on_host(dots(rows, rows)).astype(np.float64))
    doubtful = np.flatnonzero(~((norms > SMALLEST) & (norms < LARGEST)))
    if len(doubtful):
        norms[doubtful] = np.linalg.norm(on_host(rows[doubtful.tolist()]).astype(np.float64), axis=1)
    return norms


@dataclass(frozen=True)
class Rows:
    """Rows that read the stream, (h, width) as stored, and how to prepare them."""

    stored: Tensor | StoredRows
    gain: Tensor | None = None
    centred: bool = False
    shift: Tensor | None = None
    """(width,): β of the norm in front of them."""

    def measured(self, share: Share) -> tuple[Vector, Vector]:
        """Return the norm of every prepared row and its product with β, (h,) each."""
        hidden, width = self.stored.shape
        size = min(max(TILE // width, 1), hidden)
        norms, offsets = np.empty(hidden), np.empty(hidden)

        def note(chosen: Iterator[slice]) -> None:
            scratch = Scratch(size * width, self.stored)
            for some in chosen:
                norms[some], offsets[some] = self.norms(some, scratch)

        share(note, pieces(hidden, size))
        return norms, offsets

    def norms(self, units: slice, scratch: Scratch) -> tuple[Vector, Vector]:
        """Return the norms of some prepared rows and their product with β, (t,) each."""
        rows, _, offset = self.prepared(units, scratch)
        return row_norms(rows), offset

    def products(self) -> NDArray[np.float64]:
        """Return the inner products of all prepared rows (h, h), of matrices with few rows such as a router's."""
        rows, _, _ = self.prepared(slice(None), Scratch(math.prod(self.stored.shape), self.stored))
        wide = on_host(rows).astype(np.float64)
        products: NDArray[np.float64] = wide @ wide.T
        return products

    def prepared(self, units: slice, scratch: Scratch) -> tuple[Tensor, Tensor, Vector]:
        """Return some rows (t, width), the gain folded in and the mean removed, that mean, and their product with β."""
        rows = scratch.rows(self.stored, units)
        offset = np.zeros(len(rows)) if self.shift is None else on_host(rows @ self.shift).astype(np.float64)
        if self.gain is not None:
            rows *= self.gain
        if not self.centred:
            return rows, zeros((len(rows),), rows), offset
        mean = rows.mean(axis=1)
        rows -= mean[:, None]
        return rows, mean, offset


@dataclass(frozen=True)
class Beside:
    """Rows whose output the activation is multiplied with."""

    rows: Rows
    factor: Callable[[Vector, Vector], Vector]
    """From the spread and the centre of their output (h,) to the factor of the activity a (h,)."""
    bias: Tensor | None = None


@dataclass(frozen=True)
class Inside:
    """The input of the activation of a term's hidden units, from which their activity is computed."""

    expected: Callable[[Vector, Vector], Vector]
    """From the spread σ and the centre b of every unit's input (h,) to its expected activity a (h,)."""
    rows: Rows | None = None
    """The rows that compute that input; None where they are the term's prepared reader or, with `by_gate`, its gate."""
    by_gate: bool = False
    bias: Tensor | None = None
    """(h,)"""
    beside: Beside | None = None
    """The rows whose output the activation is multiplied with, if the activity depends on them."""
    odds: Tensor | None = None
    """(h,): how probable it is that a token is sent to the unit's expert."""


@dataclass(frozen=True)
class MatrixProduct:
    """One addend of M, out (width, h) @ inn (h, width): two matrices as stored, and how to prepare them.

    Nothing is converted before `tiles`, so that a term needs no memory beyond the stored tensors.
    """

    writer: Tensor
    """(width, h)"""
    reader: Tensor | StoredRows
    """(h, width)"""
    part: int
    """How many consecutive hidden units are interchangeable together: 1 of an MLP, the head size of attention."""
    writer_gain: Tensor | None = None
    reader_gain: Tensor | None = None
    reader_shift: Tensor | None = None
    """(width,): β of the norm in front of the reader."""
    unit_gain: Tensor | None = None
    """(h,), of a norm on the hidden units."""
    centred: bool = False
    """Whether the mean over the width is removed from both."""
    normed: bool = False
    """Whether a norm follows the branch, so that its output has the size of the norm's gain."""
    inside: Inside | None = None
    """What the activity of hidden units depends on; None where all of them count in full."""
    gate: Rows | None = None
    """The other reader of gated units; None where there is none, or it is not compared."""
    weigh: MatrixProduct | None = None
    """The term whose norms weigh this one's parts: the value-output product of a head weighs its query-key product."""
    measured: Vector | None = None
    """(h / part,): how much each part wrote when the model ran, in place of what its norm and activity let expect."""

    def on(self, device: Device) -> MatrixProduct:
        """Return the term with everything that tiles are made of on a device."""
        return _on(self, device)  # type: ignore[no-any-return]

    @property
    def starts(self) -> range:
        """The first hidden unit of every tile."""
        return range(0, len(self.reader), self._size)

    @property
    def _size(self) -> int:
        """Hidden units of a tile: whole parts."""
        hidden, width = self.reader.shape
        parts: int = min(TILE // width, hidden // FEWEST) // self.part
        return max(parts, 1) * self.part

    def tiles(self, starts: Iterable[int] | None = None) -> Iterator[Tile]:
        """Yield the hidden units of every tile, or of those named by their starts, prepared."""
        size, apart = min(self._size, len(self.reader)), None if self.inside is None else self.inside.rows
        widths = (rows.stored.shape[1] if rows else 0 for rows in (apart, self.gate))
        writers, readers, others, gates = (
            Scratch(size * width, self.writer) for width in (*[self.reader.shape[1]] * 2, *widths)
        )
        outs = Rows(self.writer.mT, self.writer_gain, self.centred)
        inns = Rows(self.reader, self.reader_gain, self.centred, self.reader_shift)
        for start in self.starts if starts is None else starts:
            units = slice(start, start + size)
            out, out_mean, _ = outs.prepared(units, writers)
            inn, inn_mean, offset = inns.prepared(units, readers)
            gate, _, gate_offset = self.gate.prepared(units, gates) if self.gate else (None, None, offset)
            inside = None
            if self.inside is not None:
                own = (row_norms(gate), gate_offset) if self.inside.by_gate else (row_norms(inn), offset)
                inside = own if apart is None else apart.norms(units, others)
            if self.unit_gain is not None:
                inn *= self.unit_gain[units, None]
                inn_mean = inn_mean * self.unit_gain[units]
            yield Tile(units, out, inn, (out_mean, inn_mean), inside, gate)

    def written(self, rows: slice | Tensor, units: slice, mean: Tensor, scratch: Scratch) -> Tensor:
        """Return some rows of some units of the prepared writer (r, t), given the mean of each of these units (t,)."""
        wide = scratch.widened(self.writer[rows, units])
        if self.writer_gain is not None:
            wide *= self.writer_gain[rows, None]
        if self.centred:
            wide -= mean
        return wide

    @property
    def out(self) -> Array:
        """(width, h): the prepared writer as a whole."""
        return np.concatenate([on_host(tile.out).copy() for tile in self.tiles()]).mT

    @property
    def inn(self) -> Array:
        """(h, width): the prepared reader as a whole."""
        return np.concatenate([on_host(tile.inn).copy() for tile in self.tiles()])


def _on(part: Any, device: Device) -> Any:
    """A part of a term with its arrays, and those of its own parts, on a device."""
    moved: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, StoredRows):
            moved[field.name] = on_device(np.asarray(value), device)
        elif isinstance(value, np.ndarray) and field.name not in ON_HOST:
            moved[field.name] = on_device(value, device)
        elif isinstance(value, (Rows, Beside, Inside, MatrixProduct)):
            moved[field.name] = _on(value, device)
    return replace(part, **moved)
