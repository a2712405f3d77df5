"""Reading: a regular file is opened without ever waiting; a pipe or a device, which may never end, is an error."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path

AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Flag that keeps the opening of a pipe from waiting for its other end; it changes nothing for a regular file."""
BINARY = getattr(os, "O_BINARY", 0)
_DIGESTS: dict[tuple[int, ...], str] = {}


def open_regular(file: Path) -> BufferedReader:
    """Return a regular file, opened; raise OSError for anything else, and for what cannot be opened."""
    return os.fdopen(descriptor(file), "rb")


def descriptor(file: Path) -> int:
    """Return the descriptor of a regular file, which whoever asked for it closes; raise OSError as `open_regular`."""
    opened = os.open(file, os.O_RDONLY | AT_ONCE | BINARY)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(file))


def sha256(stream: BufferedReader) -> str:
    """Return the SHA-256 of an opened file in hexadecimal, as this process has read it before if it did not change."""
    about = os.fstat(stream.fileno())
    state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    if state not in _DIGESTS:
        _DIGESTS[state] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _DIGESTS[state]
