"""A Signature as one safetensors file: the arrays as tensors, recipe and provenance as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.atomic import write_atomically
from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.signature import PARTS, PathSignature, Signature, UnitCodes
from hf_lineage.stored import FORMAT, PER_UNIT, VERSION, WITHOUT_UNITS, Provenance, bounded, places, provenance, read
from hf_lineage.tensor_file import opened_header

LARGEST_HEADER = 2**20
"""Bytes: what a signature says of itself takes some thousand."""
Arrays = Mapping[str, np.ndarray[Any, Any]]


def save_signature(signature: Signature, file: Path) -> None:
    """Write a signature, whole or not at all.

    Raise SignatureError if the file cannot be written, or if the residuals are not in memory.
    """
    write_atomically(file, encode(signature))


def encode(signature: Signature) -> bytes:
    """Return a signature as the content of a file; raise SignatureError if the residuals are not in memory."""
    if not all(isinstance(found.sketch, np.ndarray) for found in signature.paths.values()):
        raise SignatureError(
            f"{signature.model}: the exact residuals do not fit in memory, so there is nothing to write; "
            "raise --max-memory or leave --exact out"
        )
    fields = {name: getattr(signature, name) for name in Provenance.__struct_fields__ if hasattr(signature, name)}
    whole = all(found.units for found in signature.paths.values())
    fields |= {"format": FORMAT, "version": VERSION if whole else WITHOUT_UNITS, "paths": tuple(signature.paths)}
    said = Provenance(**fields, widths={path: found.widths for path, found in signature.paths.items() if found.widths})
    tensors = {
        f"{path}.{part}": np.ascontiguousarray(rows)
        for path, found in signature.paths.items()
        for part, rows in _arrays(found).items()
        if part in said.parts
    }
    return save(tensors, metadata={"signature": msgspec.json.encode(said).decode()})


def load_signature(file: Path) -> Signature:
    """Read a signature back, bit for bit; raise SignatureError if the file is none, or of another version.

    Every number that it says of itself is held against its bounds and against the header of the file before anything
    as large as these numbers say is made.
    """
    try:
        with opened_header(file, LARGEST_HEADER) as (opened, begin, stamp):
            said = provenance(opened, file)
            known = places(opened, begin)
        bounded(said, known)
        arrays = {
            path: {part: read(file, known[f"{path}.{part}"], stamp) for part in said.parts} for path in said.paths
        }
    except (OSError, safetensors.SafetensorError, ValueError, RecursionError, OptionError) as error:
        raise SignatureError(f"{file} cannot be read as a signature: {error}; extract it again") from None
    if not all(map(_usable, arrays.values())):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    fields = {name: getattr(said, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    return Signature(
        **fields, paths={path: _path(file, path, each, said.widths.get(path, ())) for path, each in arrays.items()}
    )


def _arrays(path: PathSignature) -> dict[str, np.ndarray[Any, Any]]:
    """Everything that a file can hold of one path."""
    counts = np.array([len(each.weight) for each in path.units], dtype=np.int64)
    rows = {part: np.concatenate([getattr(each, part) for each in path.units]) for part in PER_UNIT if path.units}
    return {part: getattr(path, part) for part in PARTS} | {"units": counts} | rows


def _path(file: Path, path: str, arrays: Arrays, widths: tuple[int, ...]) -> PathSignature:
    """One path as it was before it was stored."""
    parts = {part: arrays[part] for part in PARTS if part in arrays}
    if "units" not in arrays:
        return PathSignature(writes=np.ones(len(parts["norm"])), widths=widths, units=(), **parts)
    counts, rows = arrays["units"], [arrays[part] for part in PER_UNIT]
    dimensions = [each.ndim for each in (counts, *rows)] == [1, 1, 2, 2]
    if not dimensions or (counts < 0).any() or {len(each) for each in rows} != {counts.sum()}:
        raise SignatureError(
            f"{file}: {path}.units does not count the rows of what is stored of them; extract it again"
        )
    ends = np.cumsum(counts)
    pieces = [[each[end - count : end] for each in rows] for end, count in zip(ends, counts, strict=True)]
    return PathSignature(**parts, units=tuple(UnitCodes(*piece) for piece in pieces), widths=widths)


def _usable(arrays: Arrays) -> bool:
    """Whether every layer is finite, no size below 0, or one whose branch was not: NaN in all numbers, zeros beside."""
    sizes = [arrays[part] for part in ("trace", "norm", "writes") if part in arrays]
    broken = np.logical_and.reduce([np.isnan(each) for each in sizes]) & ~np.any(arrays["corner"], axis=(1, 2))
    finite = np.logical_and.reduce([np.isfinite(each) for each in sizes])
    positive = np.logical_and.reduce([each >= 0 for each in sizes[1:]])
    weights = arrays.get("weight", np.zeros(0))
    return (
        bool(np.all((finite & positive) | broken))
        and all(np.isfinite(each).all() for each in (arrays["sketch"], arrays["corner"], weights))
        and not (weights < 0).any()
    )
