"""Signature and Recipe: plain values, NumPy only.

A signature holds, for every path and layer, what a comparison needs of the centred residual R (width x width) of the
branch product M, and the recipe that says how those numbers were made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import OptionError, SignatureError

PATHS = ("mlp", "mlp_gate", "value_output", "query_key")
"""Every path through a layer, the canonical one first."""

PARTS = ("sketch", "corner", "trace", "norm")
"""The arrays of a path, each with a row for every layer."""

SKETCH_VERSION = 1
"""Raised whenever probe signs or test coordinates are drawn in another way."""

Array = NDArray[np.float32]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Recipe:
    """How a branch product M is formed, centred and sketched: every parameter that changes a number."""

    name: str
    gains: bool
    """Fold the norm gains into the matrices that read, or write through, the norm."""
    means: bool
    """Replace M by C M C with C = I - 11ᵀ/d where the norm is a LayerNorm."""
    cap: float | None
    """Scale units (or heads) whose Frobenius norm exceeds `cap` times the median down to that; None: leave them."""
    ones: bool
    """Centre on span{I, 11ᵀ} instead of on the identity alone."""
    probes: int | None = 64
    """k, the number of random sign probes; None is the exact method (Z = I)."""
    coordinates: int = 128
    """m, how many residual coordinates the permutation test keeps."""
    sketch_version: int = SKETCH_VERSION

    def __post_init__(self) -> None:
        if self.probes is not None and not 1 <= self.probes <= 65536:
            raise OptionError(f"probes must be between 1 and 65536, not {self.probes}; use exact mode for more")
        if not 2 <= self.coordinates <= 4096:
            raise OptionError(f"coordinates must be between 2 and 4096, not {self.coordinates}")

    def label(self, path: str, *besides: str) -> str:
        """Return what a file is called that holds one path seen through this recipe, and depends on this besides."""
        said = repr((*(item for item in asdict(self).items() if item[0] != "name"), *besides))
        probes = "exact" if self.probes is None else self.probes
        return f"{path}-{self.name}-{probes}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def columns(self, width: int) -> int:
        """Return how many columns a sketch has: k, or the width where Z is the identity."""
        return width if self.probes is None else min(self.probes, width)

    def probe_matrix(self, width: int) -> Array | None:
        """Return Z (width, k) with entries ±1/√k, the same on every platform; None where Z is the identity.

        With k >= width the identity costs no more than the sketch and has no error, so it is taken instead.
        """
        if self.probes is None or self.probes >= width:
            return None
        stream = random_stream(f"probes {self.sketch_version} {width} {self.probes}")
        words = stream.random_raw(-(-width * self.probes // 64))
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=width * self.probes, bitorder="little")
        signs = bits.astype(np.float32).reshape(width, self.probes) * 2 - 1
        return signs / np.float32(np.sqrt(self.probes))

    def test_coordinates(self, width: int, most: int | None = None) -> NDArray[np.int64]:
        """Return the sorted residual coordinates S, at most m of them, on which the permutation test is run."""
        words = random_stream(f"coordinates {self.sketch_version} {width}").random_raw(width)
        return np.sort(np.argsort(words, kind="stable")[: self.coordinates][:most])


RECIPES = {
    "robust": Recipe("robust", gains=True, means=True, cap=2.0, ones=True),
    "paper": Recipe("paper", gains=False, means=False, cap=None, ones=False),
}


class Columns(Protocol):
    """Residuals too large for memory, of which some columns are made whenever they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(L, d, d)."""

    @property
    def room(self) -> int:
        """How many columns may be asked for at a time."""

    def columns(self, chosen: slice) -> Array:
        """Return some columns of every residual, (L, d, b)."""


@dataclass(frozen=True)
class PathSignature:
    """What one path of a model leaves: L layers that have it, width d, k sketch columns (d when exact), m test
    coordinates.

    A layer of a narrower stream leaves the last rows of its sketch, and in exact mode its last columns, zero. A layer
    whose branch is zero or not finite keeps zeros in `sketch` and `corner`, and that norm (0 or NaN).
    """

    sketch: Array | Columns
    """(L, d, k): R Z, the centred residual seen through the probes."""
    corner: Array
    """(L, m, m): R[S, S], what the permutation test sees."""
    trace: Vector
    """(L,): tr M."""
    norm: Vector
    """(L,): ‖M‖_F, estimated from the probes unless exact."""
    widths: tuple[int, ...] = ()
    """For each layer that of its stream, where they are unlike."""

    def alike(self, other: PathSignature) -> NDArray[np.bool_]:
        """Return which layers have streams of one width with which layers of another model, (L, L)."""
        ours, theirs = (found.widths or (found.sketch.shape[1],) * len(found.trace) for found in (self, other))
        return np.equal.outer(ours, theirs)

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> PathSignature:
        """Return the signature of some layers, in the order of these rows."""
        arrays = {part: getattr(self, part)[rows] for part in PARTS}
        return PathSignature(**arrays, widths=tuple(self.widths[row] for row in rows if self.widths))

    @property
    def concentration(self) -> Vector:
        """(L,): s(M) = |tr M| / ‖M‖_F, the paper's equation 3; 0 for a branch without weight."""
        return np.divide(np.abs(self.trace), self.norm, out=np.zeros_like(self.norm), where=self.usable)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(L,): whether the layer's branch is finite and not zero."""
        finite = np.isfinite(self.norm) & np.isfinite(self.trace)
        usable: NDArray[np.bool_] = finite & (self.norm > 0) & np.any(self.corner, axis=(1, 2))
        return usable


@dataclass(frozen=True)
class Signature:
    """One model at one commit, seen through one recipe."""

    model: str
    revision: str | None
    architecture: str
    """The transformers class that `config.json` names."""
    factorization: str
    exchangeable: bool
    """Whether the architecture treats all residual coordinates alike, so that the permutation null holds."""
    width: int
    layers: int
    recipe: Recipe
    paths: Mapping[str, PathSignature]
    without: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By path the layers that have no such branch, and therefore no row in its arrays; most models have none."""
    made_from: Mapping[str, str] = field(default_factory=dict)
    """Digests of the factorization and of the model's files, as far as it was stored for others to rely on them."""
    notes: tuple[str, ...] = ()
    """Sentences about what lay beside the weights and was not read."""

    def numbers(self, path: str) -> tuple[int, ...]:
        """Return the numbers of the layers that have a row in a path's arrays."""
        missing = set(self.without.get(path, ()))
        return tuple(number for number in range(self.layers) if number not in missing)

    def __post_init__(self) -> None:
        columns = self.recipe.columns(self.width)
        for path, parts in self.paths.items():
            m = min(self.recipe.coordinates, self.width, *parts.widths)
            layers = len(self.numbers(path))
            if parts.widths and (len(parts.widths) != layers or not 2 <= min(parts.widths) <= self.width):
                raise SignatureError(f"{self.model}: {path} has {len(parts.widths)} widths for {layers} layers")
            shapes = ((layers, self.width, columns), (layers, m, m), (layers,), (layers,))
            for part, shape in zip(PARTS, shapes, strict=True):
                found = getattr(parts, part).shape
                if found != shape:
                    raise SignatureError(f"{self.model}: {path}.{part} has shape {found}, its recipe asks for {shape}")


def joined(one: Signature, other: Signature) -> Signature:
    """Return the rows of two signatures as one: unlike layers of one model through one recipe."""
    paths, numbers = {}, {}
    for path, ours in one.paths.items():
        theirs = other.paths[path]
        arrays = {part: np.concatenate([getattr(ours, part), getattr(theirs, part)]) for part in PARTS}
        both = PathSignature(**arrays, widths=(*ours.widths, *theirs.widths))
        numbers[path] = (*one.numbers(path), *other.numbers(path))
        paths[path] = both.of(np.argsort(numbers[path]))
    return replace(one, paths=paths, without=_without(one.layers, numbers))


def some_layers(whole: Signature, layers: Collection[int] | None = None) -> Signature:
    """Return the rows of some layers, or of all, as if no others had been read."""
    if layers is None or len(layers) == whole.layers:
        return whole
    numbers = {path: whole.numbers(path) for path in whole.paths}
    paths = {
        path: found.of([row for row, number in enumerate(numbers[path]) if number in layers])
        for path, found in whole.paths.items()
    }
    left = {path: [number for number in numbers[path] if number in layers] for path in paths}
    return replace(whole, paths=paths, without=_without(whole.layers, left))


def _without(layers: int, numbers: Mapping[str, Collection[int]]) -> dict[str, tuple[int, ...]]:
    """By path the layers of a model that are not among these, of the paths that lack any."""
    absent = {path: tuple(number for number in range(layers) if number not in numbers[path]) for path in numbers}
    return {path: missing for path, missing in absent.items() if missing}


def by_path(signature: Signature) -> dict[str, Signature]:
    """Return a signature as one for each of its paths."""
    without = signature.without.items()
    return {
        path: replace(signature, paths={path: found}, without={of: absent for of, absent in without if of == path})
        for path, found in signature.paths.items()
    }


def together(single: Sequence[Signature]) -> Signature:
    """Return signatures of one model along unlike paths as one."""
    paths = {path: found for each in single for path, found in each.paths.items()}
    without = {path: absent for each in single for path, absent in each.without.items()}
    return replace(single[0], paths=paths, without=without)


def same_recipe(a: Signature, b: Signature) -> None:
    """Raise SignatureError unless every parameter that changes a number is the same in both signatures."""
    ours, theirs = asdict(a.recipe), asdict(b.recipe)
    unlike = [f"{key} {ours[key]} and {theirs[key]}" for key in ours if ours[key] != theirs[key]]
    if unlike:
        raise SignatureError(f"{a.model} and {b.model} differ in recipe ({', '.join(unlike)}); extract both with one")


def random_stream(purpose: str) -> np.random.Philox:
    """Return Philox 4x64 under a key made from `purpose`: its raw words are the same on every platform, for ever."""
    key = int.from_bytes(hashlib.sha256(f"hf-lineage {purpose}".encode()).digest()[:16], "little")
    return np.random.Philox(key=key)
