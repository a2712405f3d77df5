"""Atomic writing: a file is replaced in one step, so that no reader sees half of it and no crash leaves half of it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from pathlib import Path

from hf_lineage.errors import SignatureError

TEMPORARY = ".hf-lineage-"
"""The prefix of the names of files that are still being written."""
STALE = 3600
"""Seconds after which such a file counts as left behind by a process that was killed."""
_LEFT = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{16}")


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file by new content in one step, so that no reader sees half of it and no crash leaves half of it.

    Anything but a plain file, such as /dev/null or a link, is written to directly and never replaced. An existing file
    keeps its permissions. Raise SignatureError if it cannot be written.
    """
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            _replace(file, content)
    except OSError as error:
        raise SignatureError(f"{file} cannot be written: {error.strerror or error}; name another file") from None


def make_folder(folder: Path, permissions: int = 0o777) -> None:
    """Make a folder, with those above it, unless it is there; raise SignatureError if it cannot be made."""
    try:
        folder.mkdir(permissions, parents=True, exist_ok=True)
    except OSError as error:
        raise SignatureError(f"{folder} cannot be made: {error.strerror or error}; name another folder") from None


def _replace(file: Path, content: bytes) -> None:
    """Write a temporary file beside the file, under a name that cannot be guessed, and rename it to the file."""
    _tidy(file.parent)
    temporary = file.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as stream:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(file.stat().st_mode))
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _tidy(folder: Path) -> None:
    """Remove half-written files of processes that were killed: no process, on any machine, writes for an hour."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                        Path(entry.path).unlink()
