"""A Signature as one safetensors file; its metadata is checked against bounds before any array is allocated."""

import itertools
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.schema import MOST_LAYERS
from hf_lineage.errors import OptionError, SignatureError, printable, remedy
from hf_lineage.files.atomic import write_output
from hf_lineage.files.safetensors import opened_header, read_into
from hf_lineage.signature.recipe import ROWS, Recipe
from hf_lineage.signature.values import PARTS, WIDEST, PathSignature, Signature, UnitCodes

FORMAT, VERSION = "hf-lineage signature", 4
NUMPY: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "U8": np.dtype("u1"),
}  # fmt: skip
STORED = dict(zip(PARTS, ("F32", "F32", "F64", "F64"), strict=True))  # stored array of a path -> its number format
UNITS = {"units": "I64", "weight": "F32"} | dict.fromkeys(ROWS, "U8")  # counts by layer, then all units in order
PER_UNIT = tuple(UNITS)[1:]  # the arrays with a row for each unit
LARGEST_HEADER = 2**20  # the most bytes of a header; that of a signature has some thousand
Arrays = Mapping[str, np.ndarray[Any, Any]]


class _Format(msgspec.Struct):
    format: str
    version: int


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The metadata of a file, as JSON under the key `signature`."""

    format: str
    version: int
    model: str
    commit: str | None = msgspec.field(name="revision")
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
    reservations: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()
    own_code: str = ""
    read_as: str = ""
    sections: dict[str, msgspec.Raw] = {}  # that later versions add, with arrays of their own; not read here


def provenance(opened: Any, file: Path) -> Provenance:
    """Return the metadata of a file; SignatureError if it is not a signature, or of an unknown version."""
    metadata = (opened.metadata() or {}).get("signature")
    if metadata is None:
        raise SignatureError(f"{file} is not a signature; write one with `hf-lineage extract MODEL -o FILE`")
    stated = msgspec.json.decode(metadata, type=_Format)
    if stated.format != FORMAT or stated.version != VERSION:
        raise SignatureError(f"{file} has format version {stated.version}, not {VERSION}; extract it again")
    whole = msgspec.json.decode(metadata, type=Provenance)
    # Paths that a later version has added have arrays of their own, which need not be read.
    known = tuple(path for path in whole.paths if path in PATHS)
    return msgspec.structs.replace(whole, paths=known or whole.paths)


class _StoredArray(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    start: int


def stored_arrays(opened: Any, begin: int) -> dict[str, _StoredArray]:
    """Return name -> array, in the order of their bytes; ValueError for a number format that is not read."""
    arrays = {}
    for name in opened.offset_keys():
        view = opened.get_slice(name)
        array = _StoredArray(view.get_dtype(), tuple(view.get_shape()), begin)
        if array.dtype not in NUMPY:
            # NumPy does not have all number formats of safetensors.
            raise ValueError(f"{printable(name, 200)} is stored as {array.dtype}, not as one of {', '.join(NUMPY)}")
        begin += math.prod(array.shape) * NUMPY[array.dtype].itemsize
        arrays[name] = array
    return arrays


def check_bounds(metadata: Provenance, arrays: Mapping[str, _StoredArray]) -> None:
    """Raise ValueError unless numbers, widths and arrays fit each other, SignatureError for one of another shape."""
    if not metadata.paths or not set(metadata.paths) <= set(PATHS) or len(set(metadata.paths)) < len(metadata.paths):
        raise ValueError(f"its paths are {', '.join(map(repr, metadata.paths))}, not some of {', '.join(PATHS)}")
    dimension = metadata.width
    for path in metadata.paths:
        absent, widths = metadata.without.get(path, ()), metadata.widths.get(path, ())
        rows = metadata.layers - len(absent)
        outside = not all(0 <= number < metadata.layers for number in absent)
        if rows < 1 or sorted(set(absent)) != list(absent) or outside:
            raise ValueError(f"{path}: the layers without it must lie between 0 and {metadata.layers - 1}, in order")
        if widths and (len(widths) != rows or not 2 <= min(widths) <= max(widths) <= dimension):
            raise ValueError(f"{path} has {len(widths)} widths for {rows} layers, or widths outside 2 to {dimension}")
        m = min(metadata.recipe.coordinates, dimension, *widths)
        shapes: list[tuple[int, ...]] = [(rows, dimension, metadata.recipe.columns(metadata.width)), (rows, m, m)]
        shapes += [(rows,)] * (2 + len(UNITS))
        for (part, dtype), shape in zip((STORED | UNITS).items(), shapes, strict=True):
            name = f"{path}.{part}"
            array = arrays.get(name)
            if array is None or array.dtype != dtype:
                stored = f"stored as {array.dtype}" if array else "missing"
                raise ValueError(f"{name} is {stored}, not stored as {dtype}")
            if part not in PER_UNIT and array.shape != shape:
                text = printable(metadata.model, 200)
                raise SignatureError(f"{text}: {name} has shape {array.shape}, but its recipe needs {shape}")


def save_signature(signature: Signature, file: str | PathLike[str]) -> None:
    """Write a signature, whole or not at all; SignatureError if that fails, or if the residuals are not in memory."""
    write_output(Path(file), encode(signature))


def encode(signature: Signature) -> bytes:
    """Return a signature as the content of a file; raise SignatureError if the residuals are not in memory."""
    if not all(isinstance(path.sketch, np.ndarray) for path in signature.paths.values()):
        large = f"{signature.model}: the exact residuals do not fit in memory"
        raise SignatureError(f"{large}, so nothing can be written; use probes")
    fields = {name: getattr(signature, name) for name in Provenance.__struct_fields__ if hasattr(signature, name)}
    fields |= {"format": FORMAT, "version": VERSION, "paths": tuple(signature.paths)}
    widths = {path: one.widths for path, one in signature.paths.items() if one.widths}
    metadata = Provenance(**fields, widths=widths)
    arrays = dict[str, np.ndarray[Any, Any]]()
    for path, one in signature.paths.items():
        arrays |= {f"{path}.{part}": getattr(one, part) for part in PARTS}
        arrays[f"{path}.units"] = np.array([len(codes.weight) for codes in one.units], dtype=np.int64)
        for part in PER_UNIT if one.units else ():
            arrays[f"{path}.{part}"] = np.concatenate([getattr(codes, part) for codes in one.units])
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(tensors, metadata={"signature": msgspec.json.encode(metadata).decode()})


def load_signature(file: str | PathLike[str]) -> Signature:
    """Read a signature back, bit for bit; raise SignatureError if it is not a signature, or of another version."""
    # Every number in its metadata is checked against bounds, and against the header, before such arrays are allocated.
    file = Path(file)
    try:
        with opened_header(file, LARGEST_HEADER) as (opened, begin, stamp):
            metadata = provenance(opened, file)
            places = stored_arrays(opened, begin)
        check_bounds(metadata, places)
        arrays = dict[str, dict[str, np.ndarray[Any, Any]]]()
        for path, part in itertools.product(metadata.paths, STORED | UNITS):
            stored = places[f"{path}.{part}"]
            array = arrays.setdefault(path, {})[part] = np.empty(stored.shape, dtype=NUMPY[stored.dtype])
            read_into(file, stored.start, memoryview(array.reshape(-1).view(np.uint8).data), stamp)
    except (OSError, safetensors.SafetensorError, ValueError, RecursionError, OptionError) as error:
        what = remedy(error, "extract it again")
        raise SignatureError(f"{file} cannot be read as a signature: {error}; {what}") from None
    if not all(map(_usable, arrays.values())):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    fields = {name: getattr(metadata, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    paths = {path: _path(file, path, array, metadata.widths.get(path, ())) for path, array in arrays.items()}
    return Signature(**fields, paths=paths)


def _path(file: Path, path: str, arrays: Arrays, widths: tuple[int, ...]) -> PathSignature:
    parts: dict[str, Any] = {part: arrays[part] for part in PARTS}
    counts, rows = arrays["units"], [arrays[part] for part in PER_UNIT]
    dimensions = [array.ndim for array in (counts, *rows)] == [1, 1, *[2] * len(ROWS)]
    if not dimensions or (counts < 0).any() or {len(array) for array in rows} != {counts.sum()}:
        raise SignatureError(f"{file}: {path}.units does not match the number of stored rows; extract it again")
    ends = np.cumsum(counts)
    pieces = [[array[end - count : end] for array in rows] for end, count in zip(ends, counts, strict=True)]
    return PathSignature(**parts, units=tuple(UnitCodes(*piece) for piece in pieces), widths=widths)


def _usable(arrays: Arrays) -> bool:
    """Return whether each layer has finite numbers and no size below 0, or marks a broken branch: NaN sizes, else 0."""
    sizes = [arrays[part] for part in ("trace", "norm")]
    broken = np.logical_and.reduce([np.isnan(values) for values in sizes]) & ~np.any(arrays["corner"], axis=(1, 2))
    finite = np.logical_and.reduce([np.isfinite(values) for values in sizes])
    return (
        bool(np.all((finite & (arrays["norm"] >= 0)) | broken))
        and all(np.isfinite(arrays[name]).all() for name in ("sketch", "corner", "weight"))  # zeros in a broken branch
        and not (arrays["weight"] < 0).any()
    )
