"""A safetensors file, read so that it may change at any time: nothing of it is mapped.

What shrinks while it is mapped kills the process with a signal that Python cannot handle, and what is replaced between
its header and its tensors gives numbers of nobody. So headers are copied, tensors are read, and each time the file is
held against what it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import safetensors

LARGEST_HEADER = 25_000_000
"""Bytes, the bound that huggingface_hub sets as well."""
OPEN_FILES = Path("/dev/fd")
"""Where files without a name can be opened again."""


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds."""

    @classmethod
    def of(cls, stream: IO[bytes]) -> Stamp:
        """Return that of an open file."""
        at = os.fstat(stream.fileno())
        return cls(at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns)


class HeaderLengthError(ValueError):
    """The first eight bytes claim a header that is too long for the file, or for anybody."""

    def __init__(self, start: bytes, length: int, size: int) -> None:
        super().__init__(f"the header claims {length} bytes of a file of {size}")
        self.start, self.length, self.size = start, length, size


class Changed(OSError):  # noqa: N818 - what has happened to a file
    """A file is not what it was when its header was read."""

    def __init__(self) -> None:
        super().__init__("the file has changed since its header was read")


@contextlib.contextmanager
def opened_header(file: Path, largest: int = LARGEST_HEADER) -> Iterator[tuple[Any, int, Stamp]]:
    """Yield a file's header as safetensors opens it, the place where its tensors begin, and the state of the file.

    safetensors itself refuses offsets that overlap, leave a gap or leave the file. Raise HeaderLengthError, OSError or
    SafetensorError.
    """
    with file.open("rb") as stream:
        found = Stamp.of(stream)
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(found.size - 8, largest):
            raise HeaderLengthError(start, length, found.size)
        content = start + stream.read(length)
        if len(content) != 8 + length:
            raise Changed
    with _copied(content, found.size, file) as copy, safetensors.safe_open(copy, framework="numpy") as opened:
        yield opened, 8 + length, found


@contextlib.contextmanager
def _copied(header: bytes, size: int, file: Path) -> Iterator[Path]:
    """A header in a file of the right size that takes no room and that nobody else can change.

    A system without such files maps the file itself for as long as its header takes.
    """
    try:
        room = os.memfd_create("header")
    except (AttributeError, OSError):
        yield file
        return
    try:
        os.truncate(room, size)
        with open(room, "wb", closefd=False) as stream:
            stream.write(header)
        yield OPEN_FILES / str(room)
    finally:
        os.close(room)


def read_into(file: Path, start: int, room: memoryview, expected: Stamp | None) -> None:
    """Fill `room` with the bytes of a file from `start` on.

    Raise Changed where they are not there, or unless the file is before and after what was expected, OSError if it
    cannot be read.
    """
    with file.open("rb", buffering=0) as stream:
        if expected not in (None, Stamp.of(stream)):
            raise Changed
        stream.seek(start)
        while room:
            count = stream.readinto(room)
            if not count:
                raise Changed
            room = room[count:]
        if expected not in (None, Stamp.of(stream)):
            raise Changed
