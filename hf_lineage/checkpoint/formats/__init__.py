"""Storage formats: how the tensors of a model are stored, and how they are decoded.

A format answers three questions: whether a checkpoint is stored in it, from which stored tensors each tensor of the
model is decoded, and how. A new format is a new entry of the table, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hf_lineage.checkpoint.formats.awq import AWQ
from hf_lineage.checkpoint.formats.fp8 import FP8
from hf_lineage.checkpoint.formats.gptq import GPTQ
from hf_lineage.checkpoint.formats.plain import FLOATS, PLAIN
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import NothingToCompare, printable


class Format(Protocol):
    """One way of storing the tensors of a model."""

    @property
    def name(self) -> str:
        """One word, for messages."""

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether a checkpoint is stored in this way, by its headers and `config.json`."""

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every tensor of the model with its stored parts; raise NothingToCompare if they do not fit."""


FORMATS: list[Format] = [FP8, GPTQ, AWQ, PLAIN]
"""The first that recognises a checkpoint reads it."""


def tensors_of(stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
    """Return the tensors of a model; raise NothingToCompare where no format recognises how they are stored."""
    storage = next((entry for entry in FORMATS if entry.recognises(stored, config)), None)
    if storage is not None:
        return storage.tensors(stored, config)
    number_formats = sorted({tensor.dtype for tensor in stored.values()} - FLOATS)
    raise NothingToCompare(
        f"the weights are quantized ({printable(', '.join(number_formats), 200)}), which is not decoded yet; "
        "check the release in F16, BF16 or F32 instead"
    )
