"""CTranslate2 as a foreign form: the variables of its `model.bin`, each decoded when it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign.ctranslate2.header import Ctranslate2Header, parse
from hf_lineage.checkpoint.foreign.ctranslate2.names import Contents, config_of, name_tensors
from hf_lineage.checkpoint.foreign.form import PREFERRED, Files, ForeignForm, parse_once, require_file
from hf_lineage.checkpoint.foreign.pieces import by_pieces
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.numbers import single
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.hub import RepoRef

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
