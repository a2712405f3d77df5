"""optimum-quanto: matrices of one byte to a number, integers or floats, with a scale for each row or for the whole.

It writes the names of its own classes into `quanto_qmap.json`, and nothing into config.json. With fewer bits the shape
of a matrix is not stored, so such matrices are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_lineage.checkpoint.formats import torchao
from hf_lineage.checkpoint.formats.grid import Grid
from hf_lineage.checkpoint.formats.modules import Module, Quantized, Settings
from hf_lineage.checkpoint.formats.plain import not_decoded
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo

DATA, SCALE, BITS = ".weight._data", ".weight._scale", ".weight._data._data"


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise NothingToCompare where it has fewer than eight bits to a number."""
    del stated
    if BITS in module.parts:
        raise not_decoded("by quanto with fewer than eight bits, and their shapes are not stored")
    shape = module.matrix(DATA, torchao.NUMBERS)
    scales = module.shape(SCALE, torchao.SCALES)
    if scales not in ((shape[0], 1), (1, 1), (1,), ()):
        raise module.damaged(f"has scales of shape {scales}, which do not fit the rows of a matrix of {shape}")
    grid, names = Grid(shape, shape if scales != (shape[0], 1) else (1, shape[1])), module.names(DATA, SCALE)
    decoded, dtypes = (
        functools.partial(torchao.decode, grid, names[1]),
        (module.parts[DATA].dtype, module.parts[SCALE].dtype),
    )
    return TensorInfo(shape, names, decoded, itemsize=4, codes=torchao.eight_bits("quanto", decoded, grid, dtypes))


@dataclass(frozen=True)
class Quanto(Quantized):
    """Matrices as optimum-quanto stores them."""

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether some matrix is stored so; no other format has such names."""
        del config
        return any(True for _ in self._modules(stored))


INPUTS = (".input_scale", ".output_scale")
"""Stored with matrices alone too, and used only where inputs are quantized, which transformers refuses."""
QUANTO = Quanto("quanto", frozenset(), (BITS, DATA), (SCALE, ".weight._shift", *INPUTS), matrix, inert=INPUTS)
