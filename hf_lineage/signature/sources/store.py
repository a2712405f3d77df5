"""A Signature as one safetensors file: the arrays as tensors, recipe and provenance as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.errors import OptionError, SignatureError, remedy
from hf_lineage.files import opened_header, write_output
from hf_lineage.signature.recipe import ROWS
from hf_lineage.signature.sources.header import (
    FORMAT,
    PER_UNIT,
    VERSION,
    Provenance,
    check_bounds,
    provenance,
    read,
    stored_arrays,
)
from hf_lineage.signature.values import PARTS, PathSignature, Signature, UnitCodes

LARGEST_HEADER = 2**20
"""The most bytes of a header; that of a signature has some thousand."""
FINITE = frozenset({"sketch", "corner", "weight"})
"""The arrays in which a broken branch has zeros."""
Arrays = Mapping[str, np.ndarray[Any, Any]]


def save_signature(signature: Signature, file: str | PathLike[str]) -> None:
    """Write a signature, whole or not at all.

    Raise SignatureError if the file cannot be written, or if the residuals are not in memory.
    """
    write_output(Path(file), encode(signature))


def encode(signature: Signature) -> bytes:
    """Return a signature as the content of a file; raise SignatureError if the residuals are not in memory."""
    if not all(isinstance(path.sketch, np.ndarray) for path in signature.paths.values()):
        raise SignatureError(
            f"{signature.model}: the exact residuals do not fit in memory, so nothing can be written; use probes"
        )
    fields = {name: getattr(signature, name) for name in Provenance.__struct_fields__ if hasattr(signature, name)}
    fields |= {"format": FORMAT, "version": VERSION, "paths": tuple(signature.paths)}
    widths = {path: one.widths for path, one in signature.paths.items() if one.widths}
    metadata = Provenance(**fields, widths=widths)
    tensors = {
        f"{path}.{part}": np.ascontiguousarray(rows)
        for path, path_signature in signature.paths.items()
        for part, rows in _arrays(path_signature).items()
        if part in metadata.parts
    }
    return save(tensors, metadata={"signature": msgspec.json.encode(metadata).decode()})


def load_signature(file: str | PathLike[str]) -> Signature:
    """Read a signature back, bit for bit; raise SignatureError if it is not a signature, or of another version.

    Every number in its metadata is checked against bounds and against the header of the file before arrays of these
    sizes are allocated.
    """
    file = Path(file)
    try:
        with opened_header(file, LARGEST_HEADER) as (opened, begin, stamp):
            metadata = provenance(opened, file)
            places = stored_arrays(opened, begin)
        check_bounds(metadata, places)
        arrays = {
            path: {part: read(file, places[f"{path}.{part}"], stamp) for part in metadata.parts}
            for path in metadata.paths
        }
    except (OSError, safetensors.SafetensorError, ValueError, RecursionError, OptionError) as error:
        what = remedy(error, "extract it again")
        raise SignatureError(f"{file} cannot be read as a signature: {error}; {what}") from None
    if not all(map(_usable, arrays.values())):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    fields = {name: getattr(metadata, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    paths = {path: _path(file, path, held, metadata.widths.get(path, ())) for path, held in arrays.items()}
    return Signature(**fields, paths=paths)


def _arrays(path: PathSignature) -> dict[str, np.ndarray[Any, Any]]:
    """Return all arrays that a file can hold of one path."""
    counts = np.array([len(codes.weight) for codes in path.units], dtype=np.int64)
    rows = {part: np.concatenate([getattr(codes, part) for codes in path.units]) for part in PER_UNIT if path.units}
    return {part: getattr(path, part) for part in PARTS} | {"units": counts} | rows


def _path(file: Path, path: str, arrays: Arrays, widths: tuple[int, ...]) -> PathSignature:
    """Return the signature of one path, made from its stored arrays."""
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
    weights = arrays.get("weight", np.zeros(0))
    return (
        bool(np.all((finite & (arrays["norm"] >= 0)) | broken))
        and all(np.isfinite(values).all() for name, values in arrays.items() if name in FINITE)
        and not (weights < 0).any()
    )
