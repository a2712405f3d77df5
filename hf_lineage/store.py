"""A Signature as one safetensors file: the arrays as tensors, recipe and provenance as metadata."""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from hf_lineage.errors import OptionError, SignatureError, printable
from hf_lineage.signature import MOST_LAYERS, PARTS, PATHS, WIDEST, PathSignature, Recipe, Signature
from hf_lineage.tensor_file import Stamp, opened_header, read_into

FORMAT, VERSION = "hf-lineage signature", 1
LARGEST_HEADER = 2**20
"""Bytes: what a signature says of itself takes some thousand."""
TEMPORARY = ".hf-lineage-"
"""What the name of a file begins with that is not whole yet."""
STALE = 3600
"""Seconds after which such a file is one that was left behind."""
_LEFT = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{16}")
NUMPY: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
STORED = dict(zip(PARTS, ("F32", "F32", "F64", "F64"), strict=True))
"""What is stored of a path, and in which number format."""


class _Format(msgspec.Struct):
    format: str
    version: int


class _Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
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
    """Read a signature back, bit for bit; raise SignatureError if the file is none, or of another version.

    Every number that it says of itself is held against its bounds and against the header of the file before anything
    as large as these numbers say is made.
    """
    try:
        with opened_header(file, LARGEST_HEADER) as (opened, begin, stamp):
            provenance = _provenance(opened, file)
            places = _places(opened, begin)
        _bounded(provenance, places)
        paths = {
            path: {part: _read(file, places[f"{path}.{part}"], stamp) for part in PARTS} for path in provenance.paths
        }
    except (OSError, safetensors.SafetensorError, ValueError, RecursionError, OptionError) as error:
        raise SignatureError(f"{file} cannot be read as a signature: {error}; extract it again") from None
    if not all(_usable(parts) for parts in paths.values()):
        raise SignatureError(f"{file} holds numbers that are not finite; extract it again")
    known = {name: getattr(provenance, name) for name in Signature.__dataclass_fields__ if name != "paths"}
    widths = {path: provenance.widths.get(path, ()) for path in paths}
    return Signature(**known, paths={path: PathSignature(**paths[path], widths=widths[path]) for path in paths})


def _provenance(opened: Any, file: Path) -> _Provenance:
    metadata = (opened.metadata() or {}).get("signature")
    if metadata is None:
        raise SignatureError(f"{file} is no signature; write one with `hf-lineage extract MODEL -o FILE`")
    said = msgspec.json.decode(metadata, type=_Format)
    if (said.format, said.version) != (FORMAT, VERSION):
        raise SignatureError(f"{file} has format version {said.version}, not {VERSION}; extract it again")
    return msgspec.json.decode(metadata, type=_Provenance)


@dataclass(frozen=True)
class _Place:
    """One array as the header describes it."""

    dtype: str
    shape: tuple[int, ...]
    start: int


def _places(opened: Any, begin: int) -> dict[str, _Place]:
    """By name where every array is, in the order of their bytes, as far as they are in a format that is read."""
    places = {}
    for name in opened.offset_keys():
        view = opened.get_slice(name)
        place = _Place(view.get_dtype(), tuple(view.get_shape()), begin)
        if place.dtype not in NUMPY:
            # Some formats are none of NumPy's.
            raise ValueError(f"{printable(name, 200)} is stored as {place.dtype}, not as F32 or F64")
        begin += math.prod(place.shape) * NUMPY[place.dtype].itemsize
        places[name] = place
    return places


def _bounded(said: _Provenance, places: Mapping[str, _Place]) -> None:
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
        columns = said.recipe.columns(said.width)
        for part, shape in zip(PARTS, ((rows, said.width, columns), (rows, m, m), (rows,), (rows,)), strict=True):
            found = places.get(f"{path}.{part}")
            if found is None or found.dtype != STORED[part]:
                stored = f"stored as {found.dtype}" if found else "missing"
                raise ValueError(f"{path}.{part} is {stored}, not stored as {STORED[part]}")
            if found.shape != shape:
                raise SignatureError(
                    f"{printable(said.model, 200)}: {path}.{part} has shape {found.shape}, its recipe asks for {shape}"
                )


def _read(file: Path, place: _Place, stamp: Stamp) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.empty(place.shape, dtype=NUMPY[place.dtype])
    read_into(file, place.start, memoryview(array.reshape(-1).view(np.uint8).data), stamp)
    return array


def _usable(parts: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    """Whether every layer is finite, or one whose branch was not: NaN in both numbers, and zeros beside them."""
    trace, norm = parts["trace"], parts["norm"]
    nothing = np.isnan(trace) & np.isnan(norm) & ~np.any(parts["corner"], axis=(1, 2))
    finite = np.isfinite(trace) & np.isfinite(norm) & (norm >= 0)
    return bool(np.all(finite | nothing)) and all(np.isfinite(parts[part]).all() for part in ("sketch", "corner"))


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file by new content in one step, so that no reader and no crash ever meets half of it.

    What is no plain file, such as /dev/null or a link, is written through, never replaced. A file that was there keeps
    its permissions.
    """
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            _replace(file, content)
    except OSError as error:
        raise SignatureError(f"{file} cannot be written: {error.strerror or error}; name another file") from None


def _replace(file: Path, content: bytes) -> None:
    """Write beside a file, under a name that nobody can guess or has taken, and move it into its place."""
    _tidy(file.parent)
    temporary = file.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as stream:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(file.stat().st_mode))
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _tidy(folder: Path) -> None:
    """Remove what a process that was killed left half written; nobody writes for so long, whatever machine it is on."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                        Path(entry.path).unlink()
