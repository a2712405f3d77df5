"""The parts of a header, read one after the other within bounds, for the file is untrusted."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from hf_lineage.checkpoint.foreign.form import HeaderError


def decode_text(content: bytes) -> str:
    """Return the text in some bytes; bytes that are not UTF-8 are replaced."""
    return content.decode("utf-8", errors="replace")


class BoundedReader:
    """Reads a file of a size in bytes from its beginning, and never beyond a bound; `ending` says where it is cut."""

    def __init__(self, stream: BinaryIO, size: int, ending: str, bound: int | None = None) -> None:
        self._stream, self._size, self._ending = stream, size, ending
        self._bound = size if bound is None else min(size, bound)
        self.position = 0

    def number(self, form: str) -> Any:
        """Return one number, read as `struct` says it."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def take(self, count: int) -> bytes:
        """Return the next bytes; raise HeaderError where the header ends before them."""
        self._refuse_beyond(count)
        content = self._stream.read(count)
        if len(content) != count:
            raise HeaderError("changed while it was read; run again")
        self.position += count
        return content

    def skip(self, count: int) -> None:
        """Step over the next bytes; raise HeaderError where the header ends before them."""
        self._refuse_beyond(count)
        self._stream.seek(count, 1)
        self.position += count

    def _refuse_beyond(self, count: int) -> None:
        if count <= self._bound - self.position:
            return
        if self._bound < self._size:
            raise HeaderError(f"has a header of more than {self._bound >> 20} MiB; do not trust it")
        raise HeaderError(f"is truncated: {self._ending}; download it again")
