"""CTranslate2: the variables of a `model.bin`, each decoded when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.foreign.ctranslate2.header import Ctranslate2Header, parse
from hf_lineage.checkpoint.foreign.files import parsed
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.numbers import single
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.hub import RepoRef

SCALE, ZERO = "_scale", "_zero"
"""What is added to the name of a quantized variable for its companions."""
Array = NDArray[Any]


def header_of(repo: RepoRef, file: str) -> Ctranslate2Header:
    """Return the header of a file; raise CheckpointError if it is damaged."""
    return parsed(repo, file, parse)[0]


def open_ctranslate2(repo: RepoRef, file: str) -> Checkpoint:
    """Return the checkpoint in a `model.bin`, by its own names; raise CheckpointError if it is damaged."""
    header, stamp = parsed(repo, file, parse)
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
        return TensorInfo(variable.shape, (name,), refusal="is stored as AWQ within CTranslate2, which is not read")
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
