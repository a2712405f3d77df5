"""Matrix product: one addend of a branch product in tiles, and the probes that it is multiplied with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from hf_lineage.checkpoint.tensor import StoredRows
from hf_lineage.signature.arrays import Scratch, Tensor, dots, on_device, on_host, zeros
from hf_lineage.signature.devices import CPU, Device
from hf_lineage.signature.recipe import Array, Recipe, Vector

TILE = 2**18  # numbers of each matrix that are prepared at a time: pieces of both matrices that stay in a CPU's cache
UNITS = 2048  # hidden units of a writer of which some rows are taken at a time
SMALLEST, LARGEST = 1e-12, 1e17  # a norm between these is correct in float32: no square underflowed and none overflowed


class Tile(NamedTuple):
    """Some hidden units of a term, prepared, in float32, in memory as they are stored, until the next is asked for."""

    units: slice
    out: Tensor  # (t, width): outᵀ
    inn: Tensor  # (t, width): inn
    means: tuple[Tensor, Tensor]  # (t,) each: the means that centring subtracted from the rows of `out` and of `inn`
    gate: Tensor | None  # (t, width): the other reader of gated units; None where it is not asked for


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
    """Rows that read the stream, (h, width) as stored, and the gain and centring that prepare them."""

    stored: Tensor | StoredRows
    gain: Tensor | None = None
    centred: bool = False

    def prepare(self, units: slice, scratch: Scratch) -> tuple[Tensor, Tensor]:
        """Return some rows (t, width), the gain folded in and the mean removed, and that mean (t,)."""
        rows = scratch.rows(self.stored, units)
        if self.gain is not None:
            rows *= self.gain
        if not self.centred:
            return rows, zeros((len(rows),), rows)
        mean = rows.mean(axis=1)
        rows -= mean[:, None]
        return rows, mean


@dataclass(frozen=True)
class MatrixProduct:
    """One addend of M, out (width, h) @ inn (h, width): two matrices as stored, which only `tiles` converts."""

    writer: Tensor  # (width, h)
    reader: Tensor | StoredRows  # (h, width)
    part: int  # hidden units that are interchangeable together: 1 in an MLP, else the size of a head
    writer_gain: Tensor | None = None
    reader_gain: Tensor | None = None
    unit_gain: Tensor | None = None  # (h,): the gain of a norm on the hidden units
    centred: bool = False  # whether the mean over the width is removed from both matrices
    gate: Rows | None = None  # the other reader of gated units; None where there is none, or it is not compared

    def on(self, device: Device) -> MatrixProduct:
        """Return the term with everything that tiles are made of on a device."""
        return _on(self, device)  # type: ignore[no-any-return]

    @property
    def starts(self) -> range:
        """The first hidden unit of every tile, which has whole parts: at least four, so that threads have work."""
        hidden, width = self.reader.shape
        parts: int = min(TILE // width, hidden // 4) // self.part
        return range(0, hidden, max(parts, 1) * self.part)

    def tiles(self, starts: Iterable[int] | None = None) -> Iterator[Tile]:
        """Yield the hidden units of every tile, or of those named by their starts, prepared."""
        size, width = min(self.starts.step, len(self.reader)), self.reader.shape[1]
        writers, readers = Scratch(size * width, self.writer), Scratch(size * width, self.writer)
        gates = Scratch(size * width if self.gate else 0, self.writer)
        outs = Rows(self.writer.mT, self.writer_gain, self.centred)
        inns = Rows(self.reader, self.reader_gain, self.centred)
        for start in self.starts if starts is None else starts:
            units = slice(start, start + size)
            out, out_mean = outs.prepare(units, writers)
            inn, inn_mean = inns.prepare(units, readers)
            gate = self.gate.prepare(units, gates)[0] if self.gate else None
            if self.unit_gain is not None:
                inn *= self.unit_gain[units, None]
                inn_mean = inn_mean * self.unit_gain[units]
            yield Tile(units, out, inn, (out_mean, inn_mean), gate)

    def prepare_writer(self, rows: slice | Tensor, units: slice, mean: Tensor, scratch: Scratch) -> Tensor:
        """Return some rows of some units of the prepared writer (r, t), given the mean of each of these units (t,)."""
        wide = scratch.widen(self.writer[rows, units])
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
    """Return a part of a term with its arrays, and those of its own parts, on a device."""
    moved: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, (StoredRows, np.ndarray)):
            moved[field.name] = on_device(np.asarray(value), device)
        elif isinstance(value, (Rows, MatrixProduct)):
            moved[field.name] = _on(value, device)
    return replace(part, **moved)


@dataclass(frozen=True)
class Probes:
    """The probes of a recipe, on one device.

    Z (width, k), or some columns of the identity; S (m,); and signs (m, UNIT_SIGNS) for the rows of hidden units.
    """

    width: int  # the width of the stream
    matrix: Tensor | slice
    coordinates: Tensor
    signs: Tensor
    ones: Tensor  # (width,): ones

    @classmethod
    def draw(
        cls, recipe: Recipe, width: int, device: Device = CPU, columns: slice = slice(None), most: int | None = None
    ) -> Probes:
        """Return a recipe's probes on a device; in exact mode those columns of the identity. S has at most `most`."""
        matrix, coordinates = recipe.probe_matrix(width), recipe.test_coordinates(width, most)
        plain = coordinates, recipe.unit_signs(len(coordinates)), np.ones(width, np.float32)
        arrays = (on_device(array, device) for array in plain)
        return cls(width, columns if matrix is None else on_device(matrix, device), *arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """(width, k) of Z."""
        if isinstance(self.matrix, slice):
            return self.width, len(range(self.width)[self.matrix])
        return self.width, self.matrix.shape[1]

    def project(self, rows: Tensor) -> Tensor:
        """Return rows (t, width) @ Z, (t, k)."""
        return rows[:, self.matrix] if isinstance(self.matrix, slice) else rows @ self.matrix

    def centre(self, product: Array, identity: float, ones: float) -> None:
        """Take (identity I + ones 11ᵀ) Z off a product (width, k), in place."""
        if isinstance(self.matrix, slice):
            block = product[self.matrix]
            np.einsum("ii->i", block[: len(block.T), : len(block)])[:] -= identity  # a view of the diagonal
            product -= ones
            return
        matrix = on_host(self.matrix)
        product -= identity * matrix + ones * matrix.sum(axis=0)
