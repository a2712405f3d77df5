"""Atomic: a file is replaced in one step, so that no reader and no crash ever meets half of it."""

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
"""What the name of a file begins with that is not whole yet."""
STALE = 3600
"""Seconds after which such a file is one that was left behind."""
_LEFT = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{16}")


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file by new content in one step, so that no reader and no crash ever meets half of it.

    What is no plain file, such as /dev/null or a link, is written through, never replaced. A file that was there keeps
    its permissions.
    """
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            _replace(file, content)
    except OSError as error:
        raise SignatureError(f"{file} cannot be written: {error.strerror or error}; name another file") from None


def _replace(file: Path, content: bytes) -> None:
    """Write beside a file, under a name that nobody can guess or has taken, and move it into its place."""
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
    """Remove what a process that was killed left half written; nobody writes for so long, whatever machine it is on."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                        Path(entry.path).unlink()
