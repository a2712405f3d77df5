"""MLX: integers of 2 to 8 bits, a scale and a bias for each group of a row; `scale x integer + bias`.

Older files say `quantization` in config.json, newer ones `quantization_config` without a method.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import integers
from hf_lineage.checkpoint.formats.grid import WORD, Grid, across, finite
from hf_lineage.checkpoint.formats.modules import SCALES, Module, Quantized, Settings, count, not_decoded, settings
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import ByRows, TensorInfo
from hf_lineage.errors import printable

KEY, SIZE = "quantization", "group_size"
BITS = (2, 3, 4, 5, 6, 8)


def matrix(module: Module, stated: Settings) -> TensorInfo:
    """Return the tensor of one matrix; raise CheckpointError where its parts do not fit each other or config.json."""
    own = stated.get(module.start)
    stated = {**stated, **own} if isinstance(own, Mapping) else stated
    mode = stated.get("mode") or "affine"
    if mode != "affine" or (".weight" in module.parts and len(module.parts[".weight"].shape) == 3):
        what = "experts in one stack" if mode == "affine" else f"the mode {printable(str(mode), 50)}"
        raise not_decoded(f"by MLX with {what}, which is not decoded")
    bits, size = count(stated, "bits"), count(stated, SIZE)
    out, words = module.matrix(".weight", frozenset({"U32"}))
    groups = module.matrix(".scales", SCALES)[1]
    if bits not in BITS or size < 1 or words * WORD != groups * size * bits:
        raise module.damaged(
            f"is packed in {words} words per row, which do not make {groups} groups of {size} integers of {bits} bits"
        )
    for end in (".scales", ".biases"):
        module.shape(end, SCALES, (out, groups))
    ends = (".weight", ".scales", ".biases")
    decode = ByRows(
        functools.partial(_decode, groups * size, size, bits, tuple(f"{module.start}{end}" for end in ends[1:]))
    )
    codes = integers(f"{bits} bits of MLX", decode, bits, (1, size), module.parts[".scales"].dtype, both=True)
    return module.tensor((out, groups * size), ends, decode, codes)


def _decode(
    columns: int, size: int, bits: int, names: Sequence[str], parts: Sequence[NDArray[Any]]
) -> NDArray[np.float32]:
    """Return as many rows (out, in) as the parts have."""
    packed, scales, biases = parts
    grid = Grid((len(packed), columns), (1, size))
    whole = grid.decoded(across(packed, bits), finite(names[0], scales))
    grouped = whole.reshape(*grid.cells, grid.block[1])
    grouped += finite(names[1], biases)[..., None]
    return whole


@dataclass(frozen=True)
class Mlx(Quantized):
    """Matrices as MLX quantizes them."""

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether `config.json` says bits and groups without a method, and some matrix is stored so."""
        return bool(_settings(config)) and any(True for _ in self._modules(stored))

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every tensor of the model; raise as other formats do."""
        return super().tensors(stored, {**config, "quantization_config": _settings(config)})


def _settings(config: Mapping[str, Any]) -> Settings:
    """Return the settings of the quantization that `config.json` states in the words of MLX; empty if it has none."""
    older = config.get(KEY)
    stated = older if isinstance(older, dict) else settings(config)
    return {} if "quant_method" in stated or SIZE not in stated or "bits" not in stated else stated


MLX = Mlx("MLX", frozenset(), (".biases", ".scales"), (".weight",), matrix)
