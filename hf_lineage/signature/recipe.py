"""Recipe: every parameter that changes a number of a signature, its random signs and coordinates, and the paths.

A field that takes several kinds of value and holds one kind is a descriptor, so that a type checker knows both;
`hf_lineage.options` turns one into the other.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.paths import NAMED, PATHS, USUAL
from hf_lineage.errors import OptionError
from hf_lineage.signature.recipe_table import PARAMETERS

SKETCH_VERSION = 1  # a version that rises whenever probe signs or test coordinates are drawn in another way

UNIT_SIGNS = 128  # signs that a signature holds for each row of a hidden unit: of its reader, its writer and its gate
ROWS = ("inner", "outer", "gate")  # of a hidden unit: its reader, its writer, and the other reader of gated units
HEAD_COORDINATES = 16  # test coordinates on either side whose products stand for the direction of a head

Array = NDArray[np.float32]
Vector = NDArray[np.float64]
Value = TypeVar("Value")
Stated = TypeVar("Stated")


@dataclass(frozen=True)
class Recipe:
    """The parameters by which a branch product M is formed, centred and sketched: all that change a number."""

    name: str
    gains: bool  # fold the norm gains into the matrices that read, or write through, the norm
    means: bool  # replace M by C M C with C = I - 11ᵀ/d where the norm is a LayerNorm
    cap: bool  # scale units (or heads) whose Frobenius norm exceeds the median of their layer down to it
    ones: bool  # centre on span{I, 11ᵀ} instead of on the identity alone
    gates: bool = False  # record all three rows of gated hidden units: a unit is inherited only with its gate
    version: int = 1  # of the recipe of this name; a signature holds the version that it was made with
    probes: int | None = 64  # k, the number of random sign probes; None is the exact method (Z = I)
    coordinates: int = 128  # m, the number of test coordinates
    sketch_version: int = SKETCH_VERSION

    def __post_init__(self) -> None:
        if self.probes is not None and not 1 <= self.probes <= 65536:
            raise OptionError(f"probes must be between 1 and 65536, not {self.probes}; for more use probes=exact")
        if not 2 <= self.coordinates <= 4096:
            raise OptionError(f"coordinates must be between 2 and 4096, not {self.coordinates}")

    @property
    def option(self) -> str:
        """Its name."""
        usual = RECIPES.get(self.name)
        return self.name if usual is None or usual.version == self.version else f"{self.name}-{self.version}"

    def label(self, path: str, *besides: str) -> str:
        """Return the name, without ending, of a file for one path of this recipe that depends on `besides` as well."""
        parameters = repr((*asdict(self).items(), *besides))
        probes = "exact" if self.probes is None else self.probes
        return f"{path}-{self.name}-{probes}-{hashlib.sha256(parameters.encode()).hexdigest()[:12]}"

    def columns(self, width: int) -> int:
        """Return the number of columns of a sketch: k, or the width where Z is the identity."""
        return width if self.probes is None else min(self.probes, width)

    def probe_matrix(self, width: int) -> Array | None:
        """Return Z (width, k) with entries ±1/√k; None where the identity costs no more and has no error."""
        if self.probes is None or self.probes >= width:
            return None
        drawn = signs(f"probes {self.sketch_version} {width} {self.probes}", (width, self.probes))
        return drawn / np.float32(np.sqrt(self.probes))

    def test_coordinates(self, width: int, most: int | None = None) -> NDArray[np.int64]:
        """Return the sorted residual coordinates S, at most m of them, on which the permutation test is run."""
        words = random_stream(f"coordinates {self.sketch_version} {width}").random_raw(width)
        return np.sort(np.argsort(words, kind="stable")[: self.coordinates][:most])


RECIPES = {option: Recipe(**parameters) for option, parameters in PARAMETERS.items()}  # the default first


def signs(purpose: str, shape: tuple[int, int]) -> Array:
    """Return random ±1 of a shape, the same ones for the same purpose."""
    count = shape[0] * shape[1]
    words = random_stream(purpose).random_raw(-(-count // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=count, bitorder="little")
    return np.asarray(bits.astype(np.float32).reshape(shape) * 2 - 1)


def random_stream(purpose: str) -> np.random.Philox:
    """Return Philox 4x64 under a key made from `purpose`: its raw words are the same on every platform, for ever."""
    key = int.from_bytes(hashlib.sha256(f"hf-lineage {purpose}".encode()).digest()[:16], "little")
    return np.random.Philox(key=key)


class _Field(Generic[Value, Stated]):
    def __init__(self, default: Value) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Value:
        value: Value = self._default if instance is None else vars(instance)[self._name]
        return value

    def __set__(self, instance: object, value: Stated) -> None:
        vars(instance)[self._name] = value


class OptionalPath(_Field[Path | None, str | os.PathLike[str] | None]):
    """A path, which may be given as text; None by default."""

    def __init__(self) -> None:
        super().__init__(None)


class Names(_Field[tuple[str, ...], str | os.PathLike[str] | Iterable[str | os.PathLike[str]]]):
    """Names, of which one may be given by itself, and each as text or as a path; by default those named here."""

    def __init__(self, *default: str) -> None:
        super().__init__(default)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The specification of a signature: its recipe and its paths; OptionError for an unknown path."""

    recipe: Recipe = RECIPES["robust"]
    paths: Names = Names(*USUAL)  # names of paths, or a name in NAMED

    def __post_init__(self) -> None:
        if self.paths in NAMED:
            return
        unknown = [path for path in self.paths if path not in PATHS]
        if unknown or not self.paths or len(set(self.paths)) != len(self.paths):
            known = f"all, usual, or some of {', '.join(PATHS)}, each once"
            raise OptionError(f"paths must be {known}, not {', '.join(self.paths)}")
