"""Reading of safetensors files that may change at any time: no file is mapped into memory.

A mapped file that shrinks kills the process with a signal that Python cannot handle, and a file that is replaced
between the reading of its header and of its tensors gives wrong numbers. So headers are copied, tensors are read, and
each time the state of the file is compared with what it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import safetensors

from hf_lineage.files.regular import open_regular

LARGEST_HEADER = 25_000_000
"""Bytes, the bound that huggingface_hub sets as well."""
OPEN_FILES = Path("/dev/fd")
"""The folder where the system shows the open files of this process, also those without a name."""


class Stamp(NamedTuple):
    """The state of a file: it has another stamp after a change."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds."""

    @classmethod
    def of(cls, stream: IO[bytes]) -> Stamp:
        """Return the stamp of an open file."""
        status = os.fstat(stream.fileno())
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class HeaderLengthError(ValueError):
    """The first eight bytes claim a header that is longer than the file, or longer than any header may be."""

    def __init__(self, start: bytes, length: int, size: int) -> None:
        super().__init__(f"the header claims {length} bytes of a file of {size}")
        self.start, self.length, self.size = start, length, size


class Changed(OSError):  # noqa: N818 - names the event
    """A file has changed since its header was read."""

    def __init__(self) -> None:
        super().__init__("the file has changed since its header was read")


@contextlib.contextmanager
def opened_header(file: Path, largest: int = LARGEST_HEADER) -> Iterator[tuple[Any, int, Stamp]]:
    """Yield a file's header as safetensors opens it, the position where its tensors begin, and the stamp of the file.

    safetensors itself refuses offsets that overlap, leave a gap or leave the file. Raise HeaderLengthError, OSError or
    SafetensorError.
    """
    with open_regular(file) as stream:
        stamp = Stamp.of(stream)
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(stamp.size - 8, largest):
            raise HeaderLengthError(start, length, stamp.size)
        content = start + stream.read(length)
        if len(content) != 8 + length:
            raise Changed
    with _copied(content, stamp.size, file) as copy, safetensors.safe_open(copy, framework="numpy") as opened:
        yield opened, 8 + length, stamp


@contextlib.contextmanager
def _copied(header: bytes, size: int, file: Path) -> Iterator[Path]:
    """The path of a copy of the header: a file of the full size that takes no space and no other process can change.

    On a system without such files it is the file itself, which is then mapped while its header is parsed.
    """
    try:
        descriptor = os.memfd_create("header")
    except (AttributeError, OSError):
        yield file
        return
    try:
        os.truncate(descriptor, size)
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(header)
        yield OPEN_FILES / str(descriptor)
    finally:
        os.close(descriptor)


def read_into(file: Path, start: int, buffer: memoryview, expected: Stamp | None) -> None:
    """Fill `buffer` with the bytes of a file from `start` on.

    Raise Changed if the file is too short, or if its stamp before or after reading is not the expected one, OSError if
    it cannot be read.
    """
    with open_regular(file) as stream:
        if expected not in (None, Stamp.of(stream)):
            raise Changed
        stream.seek(start)
        while buffer:
            count = stream.readinto(buffer)
            if not count:
                raise Changed
            buffer = buffer[count:]
        if expected not in (None, Stamp.of(stream)):
            raise Changed
