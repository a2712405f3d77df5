"""Reading of safetensors files that may change at any time: no file is mapped into memory.

A mapped file that shrinks kills the process with a signal that Python cannot handle, and one that is replaced gives
wrong numbers. So headers are copied, tensors are read, and each time the state of the file is compared.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import safetensors

from hf_lineage.files.paths import descriptor, open_regular

LARGEST_HEADER = 25_000_000  # bytes, the bound that huggingface_hub sets as well
OPEN_FILES = Path("/dev/fd")  # where the system shows the open files of this process, also those without a name
MOST_OPEN = 64  # files that are kept open, of the 256 that some systems allow a process
_OPEN: "weakref.WeakKeyDictionary[Stamp, _OpenFile]" = weakref.WeakKeyDictionary()  # a stamp goes with its last tensor
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Stamp:
    """The state of a file: it has another stamp after a change."""

    device: int
    inode: int
    size: int
    modified: int  # nanoseconds

    @classmethod
    def take(cls, place: IO[bytes] | Path | int) -> "Stamp":
        """Return the stamp of an open file, or of the one that has a name now; raise OSError if there is none."""
        status = os.stat(place if isinstance(place, Path | int) else place.fileno())  # noqa: PTH116 - or a descriptor
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class HeaderLengthError(ValueError):
    """The first eight bytes claim a header that is longer than the file, or longer than any header may be."""

    def __init__(self, start: bytes, length: int, size: int) -> None:
        super().__init__(f"the header claims {length} bytes in a file of {size}")
        self.start, self.length, self.size = start, length, size


class FileChangedError(OSError):
    """A file has changed since its header was read."""

    def __init__(self) -> None:
        super().__init__("the file changed after its header was read")


@contextlib.contextmanager
def opened_header(file: Path, largest: int = LARGEST_HEADER) -> Iterator[tuple[Any, int, Stamp]]:
    """Yield a file's header as safetensors opens it, the position where its tensors begin, and the file's stamp."""
    with open_regular(file) as stream:
        stamp = Stamp.take(stream)
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(stamp.size - 8, largest):
            raise HeaderLengthError(start, length, stamp.size)
        content = start + stream.read(length)
        if len(content) != 8 + length:
            raise FileChangedError
    with _copy_header(content, stamp.size, file) as copy, safetensors.safe_open(copy, framework="numpy") as opened:
        yield opened, 8 + length, stamp


@contextlib.contextmanager
def _copy_header(header: bytes, size: int, file: Path) -> Iterator[Path]:
    """Yield the path of a copy of the header, as long as the file, which takes no space and nobody else can change."""
    try:
        descriptor = os.memfd_create("header")
    except (AttributeError, OSError):
        yield file  # it is mapped while its header is parsed
        return
    try:
        os.truncate(descriptor, size)
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(header)
        yield OPEN_FILES / str(descriptor)
    finally:
        os.close(descriptor)


class _OpenFile:
    """A file that stays open as long as anything refers to this."""

    def __init__(self, file: Path) -> None:
        self.descriptor = descriptor(file)
        weakref.finalize(self, os.close, self.descriptor)


def _open_once(file: Path, stamp: Stamp | None) -> _OpenFile:
    if stamp is None:
        return _OpenFile(file)
    if Stamp.take(file) != stamp:
        raise FileChangedError
    with _LOCK:
        opened = _OPEN.get(stamp)
        if opened is None:
            if len(_OPEN) >= MOST_OPEN:
                _OPEN.clear()
            opened = _OpenFile(file)
            if Stamp.take(opened.descriptor) != stamp:
                raise FileChangedError
            _OPEN[stamp] = opened
    return opened


def prefetch(file: Path, start: int, size: int, expected: Stamp | None) -> None:
    """Ask the system to read bytes of a file in the background, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        opened = _open_once(file, expected)
        os.posix_fadvise(opened.descriptor, start, size, os.POSIX_FADV_WILLNEED)


def read_into(file: Path, start: int, buffer: memoryview, expected: Stamp | None) -> None:
    """Fill `buffer` with the bytes of a file from `start` on; raise OSError if it cannot be read, or has changed."""
    opened = _open_once(file, expected)
    while buffer:  # several threads may read one file at once
        if hasattr(os, "preadv"):
            count = os.preadv(opened.descriptor, [buffer], start)
        else:
            with _LOCK, open(opened.descriptor, "rb", buffering=0, closefd=False) as stream:
                stream.seek(start)
                count = stream.readinto(buffer) or 0
        if not count:
            raise FileChangedError
        start, buffer = start + count, buffer[count:]
    if expected is not None and Stamp.take(opened.descriptor) != expected:
        raise FileChangedError
