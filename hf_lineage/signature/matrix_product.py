"""Matrix product: one addend of a branch product in tiles, and the probes that it is multiplied with.

Before these stand the operations that differ between NumPy and torch. All other computation on weights is written once,
with operators and methods that both have.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.tensor import Memory, StoredRows, widen
from hf_lineage.signature.devices import CPU, Device
from hf_lineage.signature.recipe import UNIT_SIGNS, Array, Recipe, Vector, signs

Tensor: TypeAlias = Any  # an array of NumPy, or a tensor of torch on a GPU
TILE = 2**18  # numbers of each matrix that are prepared at a time: pieces of both matrices that stay in a CPU's cache
UNITS = 2048  # hidden units of a writer of which some rows are taken at a time
SMALLEST, LARGEST = 1e-12, 1e17  # a norm between these is correct in float32: no square underflowed and none overflowed


def on_host(array: Tensor) -> NDArray[Any]:
    """Return a NumPy array with these values; a NumPy array is returned as it is."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def as_kind_of(array: NDArray[Any], other: Tensor) -> Tensor:
    """Return these values as an array of the kind of `other`, on its device."""
    if isinstance(other, np.ndarray):
        return array
    import torch

    return torch.from_numpy(array).to(other.device)


def on_device(array: NDArray[Any], device: int | str) -> Tensor:
    """Return these values on a device: `cpu` is NumPy's, any other name or number is torch's."""
    if device == "cpu":
        return array
    import torch

    # torch warns of what cannot be written, such as heads that are shared.
    stored = np.require(array, requirements=("C", "W"))
    numbers = torch.from_numpy(stored.reshape(-1).view(np.uint8)).view(getattr(torch, array.dtype.name))
    tensor = numbers.view(array.shape)
    place = torch.device(device)
    return tensor.pin_memory().to(place, non_blocking=True) if place.type == "cuda" else tensor.to(place)


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return an uninitialised array in float32 of the kind of `like`, on its device."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.float32)
    import torch

    return like.new_empty(shape, dtype=torch.float32)


def zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return zeros in float32 of the kind of `like`, on its device."""
    made = empty(shape, like)
    made[...] = 0
    return made


def by_columns(matrix: Tensor) -> bool:
    """Return whether the numbers of a column lie side by side in memory, and those of a row do not."""
    if isinstance(matrix, np.ndarray):
        return matrix.strides[-1] != matrix.itemsize and matrix.strides[0] == matrix.itemsize
    return bool(matrix.stride(-1) != 1 and matrix.stride(0) == 1)


def dots(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of every row of one matrix with the same row of another, (t,)."""
    if not isinstance(one, np.ndarray):
        return (one * other).sum(axis=1)
    if by_columns(one) and by_columns(other):
        return np.ones(one.shape[1], np.float32) @ (one.mT * other.mT)
    return np.vecdot(one, other)


def columns(rows: Tensor, chosen: Tensor) -> Tensor:
    """Return some columns (m,) of rows (t, width), (t, m)."""
    if not isinstance(rows, np.ndarray):
        return rows.index_select(1, chosen)
    return rows.mT.take(chosen, axis=0).mT if by_columns(rows) else rows.take(chosen, axis=1)


def largest(rows: Tensor) -> NDArray[np.float64]:
    """Return the largest absolute value in every row (t,), as a NumPy array."""
    sizes = abs(rows)
    most = sizes.max(axis=1) if isinstance(sizes, np.ndarray) else sizes.amax(dim=1)
    return on_host(most).astype(np.float64)


class Scratch:
    """Memory for pieces of a stored matrix in float32, at most `size` numbers each, used again for every piece."""

    def __init__(self, size: int, like: Tensor | StoredRows) -> None:
        self._memory = empty((size,), np.empty(0) if isinstance(like, StoredRows) else like)
        self._read = Memory()

    def rows(self, matrix: Tensor | StoredRows, chosen: slice) -> Tensor:
        """Return some rows of a matrix as float32."""
        return self.widen(matrix.read(chosen, self._read) if isinstance(matrix, StoredRows) else matrix[chosen])

    def widen(self, stored: Tensor) -> Tensor:
        """Return a piece (r, c) as float32, in the order in which it is stored: transposing it would cost far more."""
        if by_columns(stored):
            return self.widen(stored.mT).mT
        rows, width = stored.shape
        wide = self._memory[: rows * width].reshape(rows, width)
        if isinstance(wide, np.ndarray):
            widen(wide, stored)
        else:
            wide.copy_(stored.contiguous())
        return wide


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


def move(part: Any, device: Device) -> Any:
    """Return a term, or a part of one, with all that its tiles are made of on a device."""
    moved: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, (StoredRows, np.ndarray)):
            moved[field.name] = on_device(np.asarray(value), device)
        elif isinstance(value, (Rows, MatrixProduct)):
            moved[field.name] = move(value, device)
    return replace(part, **moved)


@dataclass(frozen=True)
class Probes:
    """The probes of a recipe, on one device."""

    width: int  # the width of the stream
    matrix: Tensor | slice  # Z (width, k), or some columns of the identity
    coordinates: Tensor  # S (m,)
    signs: Tensor  # (m, UNIT_SIGNS): for the rows of hidden units
    ones: Tensor  # (width,): ones

    @classmethod
    def draw(
        cls, recipe: Recipe, width: int, device: Device = CPU, columns: slice = slice(None), most: int | None = None
    ) -> "Probes":
        """Return a recipe's probes on a device; in exact mode those columns of the identity. S has at most `most`."""
        matrix, coordinates = recipe.probe_matrix(width), recipe.test_coordinates(width, most)
        size = len(coordinates)
        # Signs of single coordinates would count those that pruning has set to zero as much as the others.
        drawn = signs(f"unit signs {recipe.sketch_version} {size}", (size, UNIT_SIGNS))
        arrays = (on_device(array, device) for array in (coordinates, drawn, np.ones(width, np.float32)))
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
