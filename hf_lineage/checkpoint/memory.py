"""Memory into which the tensors of one layer after another are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes: a cache line, and a multiple of the size of every number format."""


def aligned(size: int) -> int:
    """Return the size in bytes of a tensor, rounded up so that the next tensor is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Memory:
    """Memory for tensors that is used again for the next ones once these are no longer needed.

    Reading into new memory takes much longer, because the system has to clear it first. Several threads may take from
    it at once.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        self._taken = 0
        self._lock = threading.Lock()

    def reuse(self, sizes: Iterable[int]) -> None:
        """Mark everything as free, and make room for tensors of these sizes, in bytes."""
        self._taken, size = 0, sum(map(aligned, sizes))
        if size > len(self._bytes):
            self._bytes = np.empty(0, np.uint8)  # the old memory goes before the new one comes
            self._bytes = np.empty(size, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return the next free bytes (size,), aligned; new memory where too few are left."""
        with self._lock:
            start = self._taken
            if start + aligned(size) > len(self._bytes):
                return np.empty(size, np.uint8)
            self._taken += aligned(size)
        return self._bytes[start : start + size]
