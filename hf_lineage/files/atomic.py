"""Atomic writing: a file is replaced in one step, so that no reader sees half of it and no crash leaves half of it.

A link or a pipe of its name, which may come from a checkout, is replaced, in a folder that is opened once.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hf_lineage.errors import SignatureError, remedy
from hf_lineage.files.paths import BINARY, link_on_the_way

TEMPORARY = ".hf-lineage-"  # the prefix of the names of files that are still being written
STALE = 3600  # seconds after which such a file counts as left behind by a process that was killed
BY_DESCRIPTOR = {os.chmod, os.open, os.rename, os.stat, os.unlink} <= os.supports_dir_fd  # of an open folder
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
DEVICES = ("/dev", "/dev/fd")  # in which /dev/stdout and what a shell makes of >(command) are links


@dataclass(frozen=True)
class Folder:
    """An open folder, and how a file in it is named: by its descriptor or, without one, by its path."""

    path: Path
    descriptor: int | None

    def path_of(self, name: str) -> str:
        """Return the name of a file relative to the descriptor or, without a descriptor, its path."""
        return name if self.descriptor is not None else str(self.path / name)

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file, or of the link that has its name."""
        return os.stat(self.path_of(name), dir_fd=self.descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file, or a link."""
        os.unlink(self.path_of(name), dir_fd=self.descriptor)

    def refuse_link(self) -> None:
        """Raise OSError where a link of a checkout leads to the folder, or another folder has its name by now."""
        if link := link_on_the_way(self.path):
            raise OSError(errno.ELOOP, f"{link} is a link and is not followed")
        if self.descriptor is not None and not os.path.samestat(os.fstat(self.descriptor), self.path.stat()):
            raise OSError(errno.ESTALE, "its folder was replaced meanwhile")


def write_atomically(file: Path, content: bytes, permissions: int | None = None) -> None:
    """Replace a file by new content in one step, with its permissions unless others are given."""
    with _failing(file), opened_folder(file.parent) as folder:
        _replace(folder, file.name, content, permissions)


def remove_file(file: Path) -> None:
    """Remove a file, or a link of its name, if there is one; raise SignatureError if a link leads to its folder."""
    with _failing(file), contextlib.suppress(FileNotFoundError), opened_folder(file.parent) as folder:
        folder.refuse_link()
        folder.remove(file.name)


def write_output(file: Path, content: bytes) -> None:
    """Write a result where the user wants it: into a device or a pipe that they name, else as `write_atomically`."""
    with _failing(file):
        mode = file.lstat().st_mode if os.path.lexists(file) else 0
        is_of_system = os.path.realpath(file.parent) in {os.path.realpath(name) for name in DEVICES}
        if mode and (is_of_system or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            place = os.open(file, os.O_WRONLY | os.O_APPEND | BINARY | (0 if is_of_system else NO_LINK))
            with os.fdopen(place, "wb") as stream:
                stream.write(content)
            return
        with opened_folder(file.parent) as folder:
            folder.refuse_link()
            _replace(folder, file.name, content)


def make_folder(folder: Path, permissions: int = 0o777) -> None:
    """Make a folder, with those above it, unless it is there; raise SignatureError if it cannot be made."""
    try:
        folder.mkdir(permissions, parents=True, exist_ok=True)
    except OSError as error:
        raise SignatureError(f"{folder} cannot be made: {error.strerror or error}; name another folder") from None


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[Folder]:
    """Yield a folder that stays the same one, whatever becomes of its name meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if BY_DESCRIPTOR else None
    try:
        yield Folder(path, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _replace(folder: Folder, name: str, content: bytes, permissions: int | None = None) -> None:
    """Put new content, whole and on the disk, in the place of whatever has a name, by a name that cannot be guessed."""
    listed = folder.path if folder.descriptor is None else folder.descriptor
    with contextlib.suppress(OSError), os.scandir(listed) as entries:
        for left in (entry.name for entry in entries if re.fullmatch(r"\.hf-lineage-[0-9a-f]{16}", entry.name)):
            with contextlib.suppress(OSError):  # no process, on any machine, writes for an hour
                status = folder.status(left)
                if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > STALE:
                    folder.remove(left)
    temporary, at = f"{TEMPORARY}{secrets.token_hex(8)}", folder.descriptor
    if permissions is None:
        with contextlib.suppress(FileNotFoundError):
            mode = folder.status(name).st_mode
            permissions = stat.S_IMODE(mode) if stat.S_ISREG(mode) else None
    place = os.open(folder.path_of(temporary), os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | BINARY, 0o666, dir_fd=at)
    try:
        with os.fdopen(place, "w+b") as stream:  # closed before: Windows renames no open file
            if permissions is not None:
                os.chmod(folder.path_of(temporary), permissions, dir_fd=at)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(folder.path_of(temporary), folder.path_of(name), src_dir_fd=at, dst_dir_fd=at)
    finally:
        with contextlib.suppress(OSError):
            folder.remove(temporary)


@contextlib.contextmanager
def _failing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = remedy(error, "name another file")
        raise SignatureError(f"{file} cannot be written: {error.strerror or error}; {advice}") from None
