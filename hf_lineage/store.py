"""A Signature as one safetensors file: the arrays as tensors, recipe and provenance as metadata."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.errors import OptionError, SignatureError
from hf_lineage.signature import PARTS, PathSignature, Recipe, Signature

FORMAT, VERSION = "hf-lineage signature", 1
STORED = dict(zip(PARTS, ("F32", "F32", "F64", "F64"), strict=True))
"""What is stored of a path, and in which number format."""


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
    notes: tuple[str, ...] = ()


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
    }
    return save(tensors, metadata={"signature": msgspec.json.encode(provenance).decode()})


def load_signature(file: Path) -> Signature:
    """Read a signature back, bit for bit; raise SignatureError if the file is none, or of another version."""
    try:
        with safetensors.safe_open(file, framework="numpy") as opened:
            metadata = (opened.metadata() or {}).get("signature")
            if metadata is None:
                raise SignatureError(f"{file} is no signature; write one with `hf-lineage extract MODEL -o FILE`")
            provenance = msgspec.json.decode(metadata, type=_Provenance)
            if (provenance.format, provenance.version) != (FORMAT, VERSION):
                raise SignatureError(f"{file} has format version {provenance.version}, not {VERSION}; extract it again")
            paths = {path: {part: _tensor(opened, path, part) for part in PARTS} for path in provenance.paths}
    except (OSError, safetensors.SafetensorError, msgspec.DecodeError, OptionError) as error:
        raise SignatureError(f"{file} cannot be read as a signature: {error}; extract it again") from None
    if not all(np.isfinite(parts[part]).all() for parts in paths.values() for part in ("sketch", "corner")):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    known = {name: getattr(provenance, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    widths = {path: provenance.widths.get(path, ()) for path in paths}
    return Signature(**known, paths={path: PathSignature(**paths[path], widths=widths[path]) for path in paths})


def _tensor(opened: Any, path: str, part: str) -> np.ndarray[Any, Any]:
    name = f"{path}.{part}"
    found = opened.get_slice(name).get_dtype()
    if found != STORED[part]:
        # Some formats are none of NumPy's.
        raise safetensors.SafetensorError(f"{name} is stored as {found}, not {STORED[part]}")
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
