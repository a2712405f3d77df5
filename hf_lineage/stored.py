"""Stored: what the file of a signature says of itself, held against its bounds before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from hf_lineage.errors import SignatureError, printable
from hf_lineage.recipe import Recipe
from hf_lineage.signature import MOST_LAYERS, PARTS, PATHS, WIDEST
from hf_lineage.tensor_file import Stamp, read_into

FORMAT, VERSION = "hf-lineage signature", 2
WITHOUT_UNITS = 1
"""The version before signatures held what each layer writes and its units; it is read as if all layers wrote alike."""
NUMPY: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "U8": np.dtype("u1"),
}  # fmt: skip
STORED = dict(zip(PARTS, ("F32", "F32", "F64", "F64", "F64"), strict=True))
"""What is stored of a path, and in which number format."""
UNITS = {"units": "I64", "weight": "F32", "inner": "U8", "outer": "U8"}
"""What is stored of its units: how many each layer has, then those of all layers one after another."""
PER_UNIT = tuple(UNITS)[1:]


class _Format(msgspec.Struct):
    format: str
    version: int


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The metadata of a file, as JSON under the key `signature`."""

    format: str
    version: int
    model: str
    revision: str | None
    architecture: str
    factorization: str
    exchangeable: bool
    width: Annotated[int, msgspec.Meta(ge=2, le=WIDEST)]
    layers: Annotated[int, msgspec.Meta(ge=1, le=MOST_LAYERS)]
    paths: tuple[str, ...]
    recipe: Recipe
    without: dict[str, tuple[int, ...]] = {}
    widths: dict[str, tuple[int, ...]] = {}
    made_from: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, str]:
        """What a file of this version holds of every path, and in which number format."""
        if self.version == WITHOUT_UNITS:
            return {part: dtype for part, dtype in STORED.items() if part != "writes"}
        return STORED | UNITS


def provenance(opened: Any, file: Path) -> Provenance:
    """Return what a file says of itself; SignatureError if it is no signature, or of a version that is not known."""
    metadata = (opened.metadata() or {}).get("signature")
    if metadata is None:
        raise SignatureError(f"{file} is no signature; write one with `hf-lineage extract MODEL -o FILE`")
    said = msgspec.json.decode(metadata, type=_Format)
    if said.format != FORMAT or said.version not in (WITHOUT_UNITS, VERSION):
        raise SignatureError(f"{file} has format version {said.version}, not {VERSION}; extract it again")
    return msgspec.json.decode(metadata, type=Provenance)


@dataclass(frozen=True)
class Place:
    """One array as the header describes it."""

    dtype: str
    shape: tuple[int, ...]
    start: int


def places(opened: Any, begin: int) -> dict[str, Place]:
    """By name where every array is, in the order of their bytes, as far as they are in a format that is read."""
    known = {}
    for name in opened.offset_keys():
        view = opened.get_slice(name)
        place = Place(view.get_dtype(), tuple(view.get_shape()), begin)
        if place.dtype not in NUMPY:
            # Some formats are none of NumPy's.
            raise ValueError(f"{printable(name, 200)} is stored as {place.dtype}, not as one of {', '.join(NUMPY)}")
        begin += math.prod(place.shape) * NUMPY[place.dtype].itemsize
        known[name] = place
    return known


def bounded(said: Provenance, known: Mapping[str, Place]) -> None:
    """Raise ValueError unless numbers, widths and arrays fit each other, SignatureError for one of another shape."""
    if not said.paths or not set(said.paths) <= set(PATHS) or len(set(said.paths)) < len(said.paths):
        raise ValueError(f"its paths are {', '.join(map(repr, said.paths))}, not some of {', '.join(PATHS)}")
    for path in said.paths:
        absent, widths = said.without.get(path, ()), said.widths.get(path, ())
        rows = said.layers - len(absent)
        if rows < 1 or sorted(set(absent)) != list(absent) or not all(0 <= number < said.layers for number in absent):
            raise ValueError(
                f"{path} is said to be missing from layers that are not some of 0 to {said.layers - 1} in order"
            )
        if widths and (len(widths) != rows or not 2 <= min(widths) <= max(widths) <= said.width):
            raise ValueError(f"{path} has {len(widths)} widths for {rows} layers, or others than 2 to {said.width}")
        m = min(said.recipe.coordinates, said.width, *widths)
        shapes: list[tuple[int, ...] | None] = [(rows, said.width, said.recipe.columns(said.width)), (rows, m, m)]
        shapes += [(rows,)] * (len(said.parts) - 2)
        for (part, dtype), shape in zip(said.parts.items(), shapes, strict=True):
            _fits(said, f"{path}.{part}", known.get(f"{path}.{part}"), dtype, None if part in PER_UNIT else shape)


def _fits(said: Provenance, name: str, place: Place | None, dtype: str, shape: tuple[int, ...] | None) -> None:
    """Raise unless an array is there, in this number format and of this shape, if it has to have one."""
    if place is None or place.dtype != dtype:
        stored = f"stored as {place.dtype}" if place else "missing"
        raise ValueError(f"{name} is {stored}, not stored as {dtype}")
    if shape is not None and place.shape != shape:
        raise SignatureError(
            f"{printable(said.model, 200)}: {name} has shape {place.shape}, its recipe asks for {shape}"
        )


def read(file: Path, place: Place, stamp: Stamp) -> np.ndarray[Any, Any]:
    """Return one array; raise OSError if the file is no longer what it was when its header was read."""
    array: np.ndarray[Any, Any] = np.empty(place.shape, dtype=NUMPY[place.dtype])
    read_into(file, place.start, memoryview(array.reshape(-1).view(np.uint8).data), stamp)
    return array
