"""The plain format: every tensor is stored by itself, as floating-point numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import NothingToCompare

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
CAST = frozenset({"F8_E4M3", "F8_E5M2"})
"""Eight bits, without scales; where `config.json` names a quantization, its format reads them."""
ENDS = (".weight", ".bias")
"""Ends of the names of tensors that no format packs with others."""
SETTINGS = ("quantization_config", "compression_config", "quantization")
"""Keys of `config.json` that say how tensors are stored."""
INSTEAD = "check the release in F16, BF16 or F32 instead"
"""The end of a message about weights that are not decoded, with a remedy for the user."""


def not_decoded(how: str) -> NothingToCompare:
    """Return the error about weights that are stored in a way that is not decoded; `how` follows "stored"."""
    return NothingToCompare(f"the weights are stored {how}; {INSTEAD}")


@dataclass(frozen=True)
class Plain:
    """Floating-point numbers; tensors of other number formats, such as counters, are listed and cannot be read."""

    name: str = "plain"

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return False if `config.json` names a quantization and some tensor is not stored in floating point."""
        packed = any(tensor.dtype not in FLOATS for tensor in stored.values())
        return not (packed and config.get("quantization_config"))

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every stored tensor as itself."""
        del config
        return {
            name: TensorInfo(tensor.shape, (name,), refusal="" if tensor.dtype in FLOATS | CAST else _refusal(tensor))
            for name, tensor in stored.items()
        }

    def alone(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether no other format can have stored these tensors, by their names and `config.json`."""
        plain = all(tensor.dtype in FLOATS and name.endswith(ENDS) for name, tensor in stored.items())
        return plain and not any(map(config.get, SETTINGS))


def _refusal(tensor: StoredTensor) -> str:
    return f"is stored as {tensor.dtype}, and config.json does not say how to decode it; {INSTEAD}"


PLAIN = Plain()
