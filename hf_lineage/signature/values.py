"""Signature: plain values that need NumPy only, and the source of their numbers.

For every path and layer it holds a sketch of R (width x width), the centred residual of the branch product M.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature.recipe import Array, Recipe, Vector

PARTS = ("sketch", "corner", "trace", "norm")  # the arrays of a path, each with a row for every layer
WIDEST = 2**20  # the largest width, several times that of real models


@dataclass(frozen=True)
class Origin:
    """The source of the numbers of a model; if a base is a folder, its record names its weight files."""

    kind: Literal["weights", "cache", "file"]  # the weights, their cached signature, or a signature file that was named
    files: Mapping[str, str] = field(default_factory=dict)  # file of the folder -> its sha256


WEIGHTS, CACHE, FILE = Origin("weights"), Origin("cache"), Origin("file")


class Columns(Protocol):
    """Residuals too large for memory, of which columns are computed when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(L, d, d)."""

    @property
    def room(self) -> int:
        """The most columns that may be asked for at a time."""

    def columns(self, chosen: slice) -> Array:
        """Return some columns of every residual, (L, d, b)."""


@dataclass(frozen=True)
class UnitCodes:
    """Hidden units or heads of a layer's branch: what each writes, and signs of sums of its rows, or of its product."""

    weight: Array  # (u,): ‖w_out,u‖ ‖w_in,u‖, at most the median of the layer; as a share of the sum
    inner: NDArray[np.uint8]  # (u, bytes): signs, packed
    outer: NDArray[np.uint8]  # (u, bytes): signs, packed; no bytes for heads
    gate: NDArray[np.uint8]  # (u, bytes): signs of the other reader of gated hidden units, packed; no bytes for others


@dataclass(frozen=True)
class SampleSize:
    """The numbers of units and coordinates that were read of every layer, of all that it has."""

    units: int  # hidden units that were read, of `of_units`
    of_units: int
    coordinates: int  # residual coordinates that were read, of `of_coordinates`
    of_coordinates: int


@dataclass(frozen=True)
class PathSignature:
    """One path of a model: L layers that have it, width d, k sketch columns (d when exact), m test coordinates.

    A narrower layer leaves the last rows of its sketch, and if exact its last columns, zero. A layer whose branch is
    zero or not finite has zeros in `sketch` and `corner`, and that norm (0 or NaN).
    """

    sketch: Array | Columns = field(repr=False)  # (L, d, k): R Z, the centred residual multiplied with the probes
    corner: Array = field(repr=False)  # (L, m, m): M[S, S], on the test coordinates, for the test
    trace: Vector = field(repr=False)  # (L,): tr M
    norm: Vector = field(repr=False)  # (L,): ‖M‖_F, estimated from the probes unless exact
    units: tuple[UnitCodes, ...] = field(default=(), repr=False)  # of each layer; empty where they were not stored
    widths: tuple[int, ...] = ()  # the width of each layer's stream, where widths differ
    sampled: SampleSize | None = None  # the sample that every layer is; None where that is the whole layer

    def alike(self, other: "PathSignature") -> NDArray[np.bool_]:
        """Return whether two layers of this and another model may be alike, (L, L): equally wide, or as `by_number`."""
        if self.by_number:
            return np.eye(len(self.trace), len(other.trace), dtype=np.bool_)
        widths = (one.widths or (one.sketch.shape[1],) * len(one.trace) for one in (self, other))
        return np.equal.outer(*widths)

    @property
    def by_number(self) -> bool:
        """Whether a layer can only be like the layer of its own number: other units were drawn in other layers."""
        return self.sampled is not None and self.sampled.units < self.sampled.of_units

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> "PathSignature":
        """Return the signature of some layers, in the order of these rows."""
        arrays = {part: getattr(self, part)[rows] for part in PARTS}
        units = tuple(self.units[row] for row in rows if self.units)
        return replace(self, **arrays, units=units, widths=tuple(self.widths[row] for row in rows if self.widths))

    @property
    def concentration(self) -> Vector:
        """(L,): s(M) = |tr M| / ‖M‖_F, the paper's equation 3; 0 for a branch without weight."""
        return np.divide(np.abs(self.trace), self.norm, out=np.zeros_like(self.norm), where=self.usable)

    @property
    def finite(self) -> NDArray[np.bool_]:
        """(L,): whether everything in the layer's branch is a finite number."""
        return np.asarray(np.isfinite(self.norm) & np.isfinite(self.trace))

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(L,): whether the layer's branch is finite and not zero."""
        return np.asarray(self.finite & (self.norm > 0) & np.any(self.corner, axis=(1, 2)))


@dataclass(frozen=True)
class Signature:
    """One model at one commit, seen through one recipe."""

    model: str
    commit: str | None
    architecture: str  # the transformers class that `config.json` names
    factorization: str
    exchangeable: bool  # whether all residual coordinates are alike, so that the permutation null holds
    width: int
    layers: int
    recipe: Recipe = field(repr=False)
    paths: Mapping[str, PathSignature] = field(repr=False)
    without: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by path, layers without it, that have no row
    # Digests of the factorization and of the model's files, if the signature was stored to be used again.
    made_from: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()  # sentences about files and tensors that lay beside the weights and were not read
    reservations: tuple[str, ...] = ()  # why these weights neither verify nor contradict a claim, whatever they show
    unaccounted: tuple[str, ...] = ()  # stored tensors that are not the class's own: then RELATED verifies nothing
    own_code: str = ""  # a sentence about code that the repository brings; empty if it has none
    read_as: str = ""  # the listed class that a model is read as which has the same tensors; empty for a listed class

    def numbers(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the layers that have a row in a path's arrays."""
        missing = set(self.without.get(path, ()))
        return tuple(number for number in range(self.layers) if number not in missing)


def join_layers(one: Signature, other: Signature) -> Signature:
    """Return one signature with the rows of two, which hold different layers of one model by one recipe."""
    paths, numbers = {}, {}
    for path, first in one.paths.items():
        second = other.paths[path]
        arrays: dict[str, Any] = {part: np.concatenate([getattr(first, part), getattr(second, part)]) for part in PARTS}
        both = PathSignature(**arrays, units=(*first.units, *second.units), widths=(*first.widths, *second.widths))
        numbers[path] = (*one.numbers(path), *other.numbers(path))
        paths[path] = both.select(np.argsort(numbers[path]))
    return replace(one, paths=paths, without=_without(one.layers, numbers))


def some_layers(whole: Signature, layers: Collection[int] | None = None) -> Signature:
    """Return the rows of some layers, or of all, as if no others had been read."""
    if layers is None or len(layers) == whole.layers:
        return whole
    paths, numbers = {}, {}
    for path, one in whole.paths.items():
        rows = [row for row, number in enumerate(whole.numbers(path)) if number in layers]
        paths[path], numbers[path] = one.select(rows), [whole.numbers(path)[row] for row in rows]
    return replace(whole, paths=paths, without=_without(whole.layers, numbers))


def _without(layers: int, numbers: Mapping[str, Collection[int]]) -> dict[str, tuple[int, ...]]:
    absent = {path: tuple(number for number in range(layers) if number not in numbers[path]) for path in numbers}
    return {path: missing for path, missing in absent.items() if missing}


def by_path(signature: Signature) -> dict[str, Signature]:
    """Return a signature as one for each of its paths."""
    absent = {path: {path: signature.without[path]} if path in signature.without else {} for path in signature.paths}
    return {path: replace(signature, paths={path: one}, without=absent[path]) for path, one in signature.paths.items()}


def join_paths(single: Sequence[Signature]) -> Signature:
    """Return signatures of one model along different paths as one."""
    paths = {path: path_signature for signature in single for path, path_signature in signature.paths.items()}
    without = {path: absent for signature in single for path, absent in signature.without.items()}
    return replace(single[0], paths=paths, without=without)
