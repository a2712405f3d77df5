"""Freed memory: the C library keeps what threads freed for their next arrays, which other work then does without."""

from __future__ import annotations

import contextlib
import ctypes


def return_freed_memory() -> None:
    """Give memory that is no longer used back to the system, where the C library can (malloc_trim of glibc).

    It is done between two parts of a comparison that use other arrays, and not between layers, where the same memory
    serves again.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
