"""Paths of this machine: what each names, whose it is, and regular files opened without waiting.

Caches and indexes that the environment names may not lie in what is checked: git writes the files of a checkout
as the user who runs it. What a user types, such as --index, counts wherever it is.
"""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import NoReturn

from hf_lineage.errors import OptionError, printable

AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # opening a pipe does not wait then; nothing else changes
BINARY = getattr(os, "O_BINARY", 0)
_DIGESTS: dict[tuple[int, ...], str] = {}
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
CACHE, INDEX = "HF_LINEAGE_CACHE", "HF_LINEAGE_INDEX"
TRUSTED = (CACHE, INDEX, "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
"""Variables that name what is trusted; those of the Hub's client may lie in a checkout, but not in that of a model."""


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


def is_file(path: str) -> bool:
    """Return whether this text names a file; False as well for a text that cannot be a path."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for names too long or with a null


def is_folder(path: str) -> bool:
    """Return whether this text names a folder; False as well for a text that cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def spell_path(path: str | os.PathLike[str]) -> str:
    """Return a path as it is typed, so that it can be no name on the Hub.

    >>> spell_path("base"), spell_path("../base"), spell_path("/home/me/base")
    ('./base', '../base', '/home/me/base')
    """
    text = os.fspath(path)
    return text if Path(text).is_absolute() or text.startswith(".") else f"./{text}"


def of_this_user_alone(file: Path) -> bool:
    """Return whether a plain file belongs to this user and nobody else can write to it, whoever wrote what is in it."""
    try:
        status = file.lstat()
    except OSError:
        return False
    private = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE)
    return private and stat.S_ISREG(status.st_mode)


def checkout_of(path: Path) -> Path | None:
    """Return the outermost git checkout in which a path lies, as it is written or after its links; None if in none."""
    written, real = Path.cwd() / path, Path(os.path.realpath(path))
    steps = (step for place in (written, real) for step in (*reversed(place.parents), place))
    return next((step for step in steps if os.path.lexists(step / ".git")), None)


def link_on_the_way(path: Path) -> Path | None:
    """Return the first link among the folders of a path in a git checkout, whose author chose it, or below here."""
    whole = Path.cwd() / path
    steps = itertools.dropwhile(lambda step: not _may_be_checkout(step), (*reversed(whole.parents), whole))
    return next((step for step in itertools.islice(steps, 1, None) if os.path.islink(step)), None)  # noqa: PTH114 - Path.is_symlink raises


def _may_be_checkout(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.lexists(folder / ".git") or (folder != folder.parent and folder.samefile("."))
    return False


def inside(path: Path, folder: Path) -> Path | None:
    """Return the real path of a file or folder; None if a link leads out of `folder`, which may itself be a link.

    In the Hub's cache, links to the blobs of a repository, and from these to those of the whole cache, may do so.
    """
    target, root = (Path(os.path.realpath(name)) for name in (path, folder))
    if target.is_relative_to(root):
        return target
    for snapshot in (root, *root.parents):  # models--ORG--NAME/snapshots/COMMIT, and what is in it
        repository = snapshot.parent.parent
        if snapshot.parent.name == "snapshots" and repository.name.startswith("models--"):
            is_common = target.parent.parent == repository.parent / "blobs" and re.fullmatch(
                r"[0-9a-f]{64}", target.name
            )
            return target if is_common or target.parent == repository / "blobs" else None
    return None


def outside_checkouts(variable: str) -> Path | None:
    """Return the place that a variable names, None if none; raise OptionError for one in a git checkout."""
    place = _place(variable)
    if place is not None and (checkout := checkout_of(place)):
        _refuse(variable, f"the git checkout {printable(checkout, 200)}")
    return place


def refuse_within(folder: Path) -> None:
    """Raise OptionError where a variable names a place in a folder with models, or in the checkout around it."""
    tree = Path(os.path.realpath(checkout_of(folder) or folder))
    for variable in TRUSTED:
        place = _place(variable)
        if place is not None and Path(os.path.realpath(place)).is_relative_to(tree):
            _refuse(variable, f"{printable(tree, 200)} (with the model that is checked)")


def _place(variable: str) -> Path | None:
    """Return the path that a variable gives, which may begin with ~; raise OptionError for nobody's home."""
    value = os.environ.get(variable, "")
    try:
        return Path(value).expanduser() if value else None
    except RuntimeError:
        raise OptionError(f"{printable(value, 200)} is nobody's home folder; set {variable} to a path") from None


def _refuse(variable: str, where: str) -> NoReturn:
    why = "whose authors could then decide what is trusted; set it to one outside"
    raise OptionError(f"{variable} names a place in {where}, {why}")
