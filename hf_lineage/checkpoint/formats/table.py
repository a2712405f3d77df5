"""Storage formats: how the tensors of a model are stored, and how they are decoded.

A format answers three questions: whether a checkpoint is stored in it, from which stored tensors each tensor of the
model is decoded, and how. A new format is a new entry of the table, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from hf_lineage.checkpoint.formats.awq import AUTO_ROUND, AWQ
from hf_lineage.checkpoint.formats.bitnet import BITNET
from hf_lineage.checkpoint.formats.bnb import EIGHT_BITS, FOUR_BITS
from hf_lineage.checkpoint.formats.compressed import COMPRESSED
from hf_lineage.checkpoint.formats.fp4_matrix import GPT_OSS
from hf_lineage.checkpoint.formats.fp8 import FP8
from hf_lineage.checkpoint.formats.gptq import GPTQ
from hf_lineage.checkpoint.formats.hqq import HQQ
from hf_lineage.checkpoint.formats.mlx import MLX
from hf_lineage.checkpoint.formats.plain import PLAIN
from hf_lineage.checkpoint.formats.quanto import QUANTO
from hf_lineage.checkpoint.formats.torchao import TORCHAO
from hf_lineage.checkpoint.formats.transforms import turned_back
from hf_lineage.checkpoint.formats.undecoded import UNDECODED, unknown
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo


class Format(Protocol):
    """One way of storing the tensors of a model."""

    @property
    def name(self) -> str:
        """One word, for messages."""

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether a checkpoint is stored in this way, by its headers and `config.json`."""

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every tensor of the model with its stored parts; raise NothingToCompare if they do not fit."""


@runtime_checkable
class Describing(Protocol):
    """A format in which some stored tensors describe others, so that they have to be read with the headers."""

    def first_read(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> list[str]:
        """Return the names of these tensors."""


FORMATS: list[Format] = [
    *(FP8, GPTQ, AWQ, AUTO_ROUND, FOUR_BITS, EIGHT_BITS, COMPRESSED, GPT_OSS, BITNET, TORCHAO, HQQ, QUANTO, MLX),
    *(UNDECODED, PLAIN),
]
"""The first that recognises a checkpoint reads it."""


def first_read(stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> list[str]:
    """Return the names of the stored tensors whose bytes `tensors_of` reads; of most formats there are none."""
    storage = _recognised(stored, config)
    return storage.first_read(stored, config) if isinstance(storage, Describing) else []


def _recognised(stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> Format | None:
    return next((entry for entry in FORMATS if entry.recognises(stored, config)), None)


def tensors_of(stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
    """Return the tensors of a model; raise NothingToCompare where no format recognises how they are stored."""
    storage = _recognised(stored, config)
    if storage is not None:
        return turned_back(storage.tensors(stored, config), config)
    raise unknown(stored, config)
