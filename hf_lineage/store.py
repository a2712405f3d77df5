"""A Signature as one safetensors file: the arrays as tensors, recipe and provenance as metadata."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.recipe import Recipe
from hf_lineage.signature import PARTS, PathSignature, Signature, UnitCodes

FORMAT, VERSION = "hf-lineage signature", 2
WITHOUT_UNITS = 1
"""The version before signatures held what each layer writes and its units; it is read as if all layers wrote alike."""
STORED = dict(zip(PARTS, ("F32", "F32", "F64", "F64", "F64"), strict=True))
"""What is stored of a path, and in which number format."""
UNITS = {"units": "I64", "weight": "F32", "inner": "U8", "outer": "U8"}
"""What is stored of its units: how many each layer has, then those of all layers one after another."""


class _Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The metadata of a file, as JSON under the key `signature`."""

    format: str
    version: int
    model: str
    revision: str | None
    architecture: str
    factorization: str
    exchangeable: bool
    width: Annotated[int, msgspec.Meta(ge=2)]
    layers: Annotated[int, msgspec.Meta(ge=1)]
    paths: tuple[str, ...]
    recipe: Recipe
    without: dict[str, tuple[int, ...]] = {}
    widths: dict[str, tuple[int, ...]] = {}
    made_from: dict[str, str] = {}


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
    fields = {name: getattr(signature, name) for name in _Provenance.__struct_fields__ if hasattr(signature, name)}
    fields |= {"format": FORMAT, "version": VERSION, "paths": tuple(signature.paths)}
    provenance = _Provenance(
        **fields, widths={path: found.widths for path, found in signature.paths.items() if found.widths}
    )
    tensors = {
        f"{path}.{part}": np.ascontiguousarray(getattr(found, part))
        for path, found in signature.paths.items()
        for part in PARTS
    } | {f"{path}.{part}": rows for path, found in signature.paths.items() for part, rows in _units(found).items()}
    return save(tensors, metadata={"signature": msgspec.json.encode(provenance).decode()})


def load_signature(file: Path) -> Signature:
    """Read a signature back, bit for bit; raise SignatureError if the file is none, or of another version."""
    try:
        with safetensors.safe_open(file, framework="numpy") as opened:
            metadata = (opened.metadata() or {}).get("signature")
            if metadata is None:
                raise SignatureError(f"{file} is no signature; write one with `hf-lineage extract MODEL -o FILE`")
            provenance = msgspec.json.decode(metadata, type=_Provenance)
            if provenance.format != FORMAT or provenance.version not in (WITHOUT_UNITS, VERSION):
                raise SignatureError(f"{file} has format version {provenance.version}, not {VERSION}; extract it again")
            paths = {path: _path(opened, path, provenance) for path in provenance.paths}
    except (OSError, safetensors.SafetensorError, msgspec.DecodeError, OptionError) as error:
        raise SignatureError(f"{file} cannot be read as a signature: {error}; extract it again") from None
    if not all(np.isfinite(rows).all() for each in paths.values() for rows in _must_be_finite(each)):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    known = {name: getattr(provenance, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    return Signature(**known, paths=paths)


def _must_be_finite(path: PathSignature) -> Iterator[np.ndarray[Any, Any]]:
    yield from (np.asarray(path.sketch), path.corner)
    yield from (each.weight for each in path.units)


def _units(stored: PathSignature) -> dict[str, np.ndarray[Any, Any]]:
    """The units of all layers as arrays; none of a signature that holds no units."""
    if not stored.units:
        return {}
    counts = np.array([len(each.weight) for each in stored.units], dtype=np.int64)
    rows = {part: np.concatenate([getattr(each, part) for each in stored.units]) for part in list(UNITS)[1:]}
    return {"units": counts} | rows


def _path(opened: Any, path: str, provenance: _Provenance) -> PathSignature:
    """What a file holds of one path."""
    widths = provenance.widths.get(path, ())
    if provenance.version == WITHOUT_UNITS:
        parts = {part: _tensor(opened, path, part, STORED[part]) for part in PARTS if part != "writes"}
        return PathSignature(**parts, writes=np.ones(len(parts["norm"])), units=(), widths=widths)
    parts = {part: _tensor(opened, path, part, STORED[part]) for part in PARTS}
    stored = opened.keys()
    if f"{path}.units" not in stored:
        return PathSignature(**parts, units=(), widths=widths)
    counts, *rows = (_tensor(opened, path, part, dtype) for part, dtype in UNITS.items())
    fit = [each.ndim for each in (counts, *rows)] == [1, 1, 2, 2] and (counts >= 0).all()
    if not fit or {len(each) for each in rows} != {counts.sum()}:
        raise safetensors.SafetensorError(f"{path}.units does not count the rows of what is stored of them")
    ends = np.cumsum(counts)
    pieces = [[each[end - count : end] for each in rows] for end, count in zip(ends, counts, strict=True)]
    return PathSignature(**parts, units=tuple(UnitCodes(*piece) for piece in pieces), widths=widths)


def _tensor(opened: Any, path: str, part: str, stored: str) -> np.ndarray[Any, Any]:
    name = f"{path}.{part}"
    found = opened.get_slice(name).get_dtype()
    if found != stored:
        # Some formats are none of NumPy's.
        raise safetensors.SafetensorError(f"{name} is stored as {found}, not {stored}")
    tensor: np.ndarray[Any, Any] = opened.get_tensor(name)
    return tensor


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file by new content in one step, so that no reader and no crash ever meets half of it.

    What is no plain file, such as /dev/null or a link, is written through, never replaced.
    """
    temporary = file.parent / f".{file.name}.{os.getpid()}"
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            temporary.write_bytes(content)
            temporary.replace(file)
    except OSError as error:
        raise SignatureError(f"{file} cannot be written: {error.strerror or error}; name another file") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
