"""Digests of what a model stores: of the bytes of every tensor, without the headers of its files.

What files are called, in which order they hold the tensors, how these are divided among them and what their metadata
say does not count. Names, number formats and shapes of tensors do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from hf_lineage.checkpoint import AT_ONCE, StoredTensor, unreadable

Tensors = Mapping[str, StoredTensor]


def digest_tensors(tensors: Tensors, advance: Callable[[int], object] = lambda _read: None) -> dict[str, str]:
    """Return the SHA-256 of the bytes of each tensor, in hexadecimal; `advance` is told how many were read.

    Raise CheckpointError if a file cannot be read, or changed since its header was.
    """
    digests: dict[str, str] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].file, item[1].start)):
        digest = hashlib.sha256()
        try:
            for piece in tensor.pieces(AT_ONCE):
                digest.update(piece)
                advance(len(piece))
        except OSError as error:
            raise unreadable(name, error) from None
        digests[name] = digest.hexdigest()
    return digests


def digest_model(tensors: Tensors, digests: Mapping[str, str]) -> str:
    """Return one SHA-256 for all tensors, in hexadecimal: of their names, formats and shapes, and their digests."""
    described = sorted((name, tensor.dtype, tensor.shape, digests[name]) for name, tensor in tensors.items())
    return hashlib.sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()
