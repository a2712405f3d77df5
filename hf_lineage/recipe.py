"""Recipe: every parameter that changes a number of a signature, and the random signs and coordinates that it draws."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import OptionError

SKETCH_VERSION = 1
"""Raised whenever probe signs or test coordinates are drawn in another way."""

UNIT_SIGNS = 128
"""Signs that a signature keeps of what a hidden unit reads, and of what it writes."""
HEAD_COORDINATES = 16
"""Test coordinates on either side whose products stand for the direction of a head."""

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
    activity: bool = False
    """Weigh every hidden unit by its expected activity, so that units which never fire weigh nothing."""
    cap_median: Literal["units", "norm"] = "units"
    """Of what the cap takes the median: of all units alike, or of the norm, half of which lies in smaller units."""
    version: int = 1
    """Counts what a recipe of one name has meant; a signature keeps the one that it was made with."""
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

    @property
    def option(self) -> str:
        """What `--recipe` calls it."""
        usual = RECIPES.get(self.name)
        return self.name if usual is None or usual.version == self.version else f"{self.name}-{self.version}"

    def label(self, path: str, *besides: str) -> str:
        """Return what a file is called that holds one path seen through this recipe, and depends on this besides."""
        said = repr((*(item for item in asdict(self).items() if item[0] != "name"), *besides))
        probes = "exact" if self.probes is None else self.probes
        return f"{path}-{self.name}-{probes}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def columns(self, width: int) -> int:
        """Return how many columns a sketch has: k, or the width where Z is the identity."""
        return width if self.probes is None else min(self.probes, width)

    @property
    def unit_bytes(self) -> int:
        """How many bytes a signature keeps of a hidden unit, or a head, at most: what it writes, and signs."""
        return 4 + max(2 * UNIT_SIGNS, HEAD_COORDINATES**2) // 8

    def unit_signs(self, size: int) -> Array:
        """Return ±1 (size, UNIT_SIGNS), through which the test coordinates of a unit are seen, the same everywhere.

        Signs of single coordinates would count those that pruning has set to zero as much as the others.
        """
        return _signs(f"unit signs {self.sketch_version} {size}", (size, UNIT_SIGNS))

    def probe_matrix(self, width: int) -> Array | None:
        """Return Z (width, k) with entries ±1/√k, the same on every platform; None where Z is the identity.

        With k >= width the identity costs no more than the sketch and has no error, so it is taken instead.
        """
        if self.probes is None or self.probes >= width:
            return None
        signs = _signs(f"probes {self.sketch_version} {width} {self.probes}", (width, self.probes))
        return signs / np.float32(np.sqrt(self.probes))

    def test_coordinates(self, width: int, most: int | None = None) -> NDArray[np.int64]:
        """Return the sorted residual coordinates S, at most m of them, on which the permutation test is run."""
        words = random_stream(f"coordinates {self.sketch_version} {width}").random_raw(width)
        return np.sort(np.argsort(words, kind="stable")[: self.coordinates][:most])


RECIPES = {
    "robust": Recipe("robust", gains=True, means=True, cap=2.0, ones=True, activity=True, cap_median="norm", version=2),
    "robust-1": Recipe("robust", gains=True, means=True, cap=2.0, ones=True),
    "paper": Recipe("paper", gains=False, means=False, cap=None, ones=False),
}
"""By what `--recipe` calls them, the default first."""


def _signs(purpose: str, shape: tuple[int, int]) -> Array:
    """Random ±1 of a shape."""
    count = shape[0] * shape[1]
    words = random_stream(purpose).random_raw(-(-count // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=count, bitorder="little")
    signs: Array = bits.astype(np.float32).reshape(shape) * 2 - 1
    return signs


def random_stream(purpose: str) -> np.random.Philox:
    """Return Philox 4x64 under a key made from `purpose`: its raw words are the same on every platform, for ever."""
    key = int.from_bytes(hashlib.sha256(f"hf-lineage {purpose}".encode()).digest()[:16], "little")
    return np.random.Philox(key=key)
