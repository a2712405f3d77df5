"""The package `gguf`, which knows how llama.cpp stores and names tensors; it is imported where a GGUF file is read."""

from __future__ import annotations

from typing import Any

from hf_lineage.errors import NothingToCompare, installation


def gguf() -> Any:
    """Return the package; raise NothingToCompare where it is not installed."""
    try:
        import gguf as package
    except ImportError:
        raise NothingToCompare(
            f"hf-lineage needs the package gguf to read a GGUF file; run `{installation('gguf')}`"
        ) from None
    return package
