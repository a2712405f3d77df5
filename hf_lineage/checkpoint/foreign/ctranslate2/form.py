"""CTranslate2 as a foreign form: the variables of its `model.bin`, each decoded when it is read.

The header is parsed with bounds, for it is untrusted. The format is what `ctranslate2.specs.ModelSpec` writes: the
version, the name of the specification, the variables, each followed by its numbers, and other names of some of them.
The numbers are stepped over.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign.ctranslate2.names import Contents, config_of, name_tensors
from hf_lineage.checkpoint.foreign.form import (
    PREFERRED,
    BoundedReader,
    Files,
    ForeignForm,
    HeaderError,
    decode_text,
    parse_once,
    require_file,
)
from hf_lineage.checkpoint.foreign.pieces import by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo, single
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.hub import RepoRef

VERSIONS = (4, 5, 6)
KINDS = ("F32", "I8", "I16", "I32", "F16", "BF16")
"""The types in the order of their numbers, in safetensors' spelling."""
BYTES = {"F32": 4, "I8": 1, "I16": 2, "I32": 4, "F16": 2, "BF16": 2}
SCALARS = {"F32": "<f", "I8": "<b", "I16": "<h", "I32": "<i"}
"""The types of single numbers that are kept, and how `struct` reads them."""
MOST_VARIABLES, LONGEST_NAME, MOST_DIMENSIONS = 2**17, 2**10, 8


class Variable(NamedTuple):
    """One tensor as the header describes it."""

    shape: tuple[int, ...]
    dtype: str
    start: int
    """The position of its first byte in the file."""


@dataclass(frozen=True)
class Ctranslate2Header:
    """What a file says beside its numbers."""

    specification: str
    """The name of the class that wrote it, such as TransformerDecoderSpec."""
    variables: Mapping[str, Variable]
    """Those that are no single number."""
    numbers: Mapping[str, int | float]
    """Those that are."""
    aliases: Mapping[str, str]
    """Another name -> the name of the variable."""


def parse(stream: BinaryIO, size: int) -> Ctranslate2Header:
    """Return the header of a file of this size in bytes; raise HeaderError, or OSError if it cannot be read."""
    reader = _Reader(stream, size, "it ends before its last variable")
    version = reader.number("<I")
    if version not in VERSIONS:
        raise HeaderError(
            f"is not a CTranslate2 model of a supported version ({version}, not 4 to 6); convert the model again"
        )
    specification, _revision, count = reader.text(), reader.number("<I"), reader.number("<I")
    variables: dict[str, Variable] = {}
    numbers: dict[str, int | float] = {}
    for _ in range(_bounded(count)):
        name = reader.text()
        variable = reader.variable(name)
        if name in variables or name in numbers:
            raise HeaderError(f"has the variable {name!r} twice; do not trust it")
        if variable.shape:
            variables[name] = variable
            reader.skip(math.prod(variable.shape) * BYTES[variable.dtype])
        else:
            content = reader.take(BYTES[variable.dtype])
            numbers[name] = struct.unpack(SCALARS[variable.dtype], content)[0] if variable.dtype in SCALARS else 0.0
    aliases = {reader.text(): reader.text() for _ in range(_bounded(reader.number("<I")))}
    lost = next((name for name, target in aliases.items() if name in variables or target not in variables), None)
    if lost is not None:
        raise HeaderError(f"says that {lost!r} is another name for a variable that is missing; do not trust it")
    return Ctranslate2Header(specification, variables, numbers, aliases)


def _bounded(count: int) -> int:
    if count > MOST_VARIABLES:
        raise HeaderError(f"claims {count} variables; hf-lineage reads at most {MOST_VARIABLES}; do not trust it")
    return count


class _Reader(BoundedReader):
    """Reads the parts of a `model.bin` one after the other."""

    def text(self) -> str:
        """A text behind its length, which counts the null at its end."""
        length = self.number("<H")
        if not 1 <= length <= LONGEST_NAME:
            raise HeaderError(f"has a name of {length} bytes; it is damaged, or not a CTranslate2 model")
        return decode_text(self.take(length)[:-1])

    def variable(self, name: str) -> Variable:
        """What stands before the numbers of a variable, its start being where they begin."""
        dimensions = self.number("<B")
        if dimensions > MOST_DIMENSIONS:
            raise HeaderError(f"says that {name!r} has {dimensions} dimensions; do not trust it")
        shape = tuple(self.number("<I") for _ in range(dimensions))
        kind, held = self.number("<B"), self.number("<I")
        dtype = KINDS[kind] if kind < len(KINDS) else None
        if dtype is None or held != math.prod(shape) * BYTES[dtype] % 2**32:
            raise HeaderError(f"says that {name!r} of {shape} has {held} bytes of the type {kind}; do not trust it")
        return Variable(shape, dtype, self.position)


FILE = "model.bin"
VOCABULARY = re.compile(r"(?:shared_|source_|target_)?vocabulary\.(?:json|txt)")
"""The file that CTranslate2 writes beside its model; a model.bin without it may be anything."""
SCALE, ZERO = "_scale", "_zero"
"""The suffixes of the names of the companions of a quantized variable."""
Array = NDArray[Any]


def _choose(repo: RepoRef) -> tuple[str, ...]:
    files = repo.files()
    if repo.file is not None:
        return (require_file(repo, repo.file, files),) if repo.file.endswith(FILE) else ()
    mine = FILE in files and any(map(VOCABULARY.fullmatch, files))
    return (FILE,) if mine and not any(map(PREFERRED.fullmatch, files)) else ()


def _config(repo: RepoRef, files: Files) -> dict[str, Any]:
    """What the file says; the `config.json` beside it is CTranslate2's own and names no class."""
    return config_of(_contents(repo, files))


def _contents(repo: RepoRef, files: Files) -> Contents:
    header, _ = parse_once(repo, files[0], parse)
    shapes = {name: variable.shape for name, variable in header.variables.items()}
    shapes |= {name: shapes[target] for name, target in header.aliases.items()}
    return Contents(header.specification, shapes, header.numbers)


def _rename(
    repo: RepoRef, files: Files, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint
) -> Checkpoint:
    del config
    contents = _contents(repo, files)
    shapes = {name: shape for name, shape in contents.shapes.items() if name in checkpoint.tensors}
    return by_pieces(checkpoint, name_tensors(factorization, replace(contents, shapes=shapes)))


def _open(repo: RepoRef, files: Files) -> Checkpoint:
    """The variables by CTranslate2's own names."""
    (file,) = files
    header, stamp = parse_once(repo, file, parse)
    place = repo.located(file)
    stored = {
        name: StoredTensor(place, variable.dtype, variable.shape, variable.start, stamp)
        for name, variable in header.variables.items()
    }
    try:
        tensors = {name: _tensor(header, name) for name in stored if not name.endswith((SCALE, ZERO))}
    except CheckpointError as error:
        raise CheckpointError(f"{repo}: {printable(file, 200)}: {error}") from None
    others = {name: tensors[target] for name, target in header.aliases.items() if target in tensors}
    return Checkpoint(stored, tensors | others)


def _tensor(header: Ctranslate2Header, name: str) -> TensorInfo:
    """A variable, multiplied by the inverse of its scale where it is quantized."""
    variable = header.variables[name]
    scale, number = header.variables.get(name + SCALE), header.numbers.get(name + SCALE)
    if variable.dtype not in ("I8", "I16", "I32"):
        return TensorInfo(variable.shape, (name,))
    if variable.dtype == "I32" or name + ZERO in header.variables or (scale is None and number is None):
        return TensorInfo(variable.shape, (name,), refusal="is stored as AWQ in CTranslate2, which is not supported")
    if scale is None:
        return TensorInfo(variable.shape, (name,), _divided(lambda _parts: number), itemsize=4)
    if scale.shape != variable.shape[:1] or scale.dtype != "F32":
        raise CheckpointError(
            f"{printable(name, 200)} of {variable.shape} has scales of {scale.shape}; do not trust the file"
        )
    across = (-1, *(1 for _ in variable.shape[1:]))
    return TensorInfo(
        variable.shape, (name, name + SCALE), _divided(lambda parts: parts[1].reshape(across)), itemsize=4
    )


def _divided(scale: Callable[[Sequence[Array]], Any]) -> Callable[[Sequence[Array]], Array]:
    """A decoder that divides the first part by a scale."""

    def decode(parts: Sequence[Array]) -> Array:
        with np.errstate(all="ignore"):  # weights that are not finite are found where they are compared
            divided: Array = single(parts[0]) / np.asarray(scale(parts), np.float32)
        return divided.astype(np.float32, copy=False)

    return decode


CTRANSLATE2: ForeignForm = ForeignForm(
    "ctranslate2", _choose, _config, _open, rename=_rename, how="which CTranslate2 loads"
)
