"""ForeignForm: the functions of each form of model files that programs other than transformers write or load.

A new form is one value of this class, and one line of the table in `forms`, a ListedForm. The parts of its header are
read one after the other within bounds, for the file is untrusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from hf_lineage.architecture.schema import Factorization
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import LFS_POINTER
from hf_lineage.errors import CheckpointError, OptionError, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import Stamp
from hf_lineage.hub.repo import RepoRef

PREFERRED = re.compile(r"(?!adapter_model).*\.safetensors(?:\.index\.json)?|pytorch_model.*\.bin(?:\.index\.json)?")
"""Files that are read in place of those of other programs where a repository has both."""
Files = Sequence[str]
T = TypeVar("T")


class HeaderError(ValueError):
    """A header that is damaged or hostile; the text is a phrase that follows the name of the file."""


@dataclass(frozen=True)
class ForeignForm:
    """One form of model files, as functions of a repository and of the names of those of its files that are used.

    Each function may raise CheckpointError for damaged files, and NothingToCompare for what is not read.
    """

    name: str
    """The library that loads it; of forms of one library the first that is chosen counts."""
    choose: Callable[[RepoRef], tuple[str, ...]]
    """The files that hold the model, by their names; none of a repository that is not of the form."""
    open: Callable[[RepoRef, Files], Checkpoint]
    """The checkpoint by the names in the files."""
    rename: Callable[[RepoRef, Files, Factorization, Mapping[str, Any], Checkpoint], Checkpoint]
    """The checkpoint by the names on the Hub's disk, given the factorization and the configuration of its class."""
    config: Callable[[RepoRef, Files], dict[str, Any]] = lambda repo, _files: repo.config()
    """The configuration, as `config.json` of transformers would say it."""
    aliases: Callable[[str], Iterable[str]] = lambda _name: ()
    """The names that a tensor may have on the Hub's disk, given the name that `rename` leaves it."""
    read: Callable[[RepoRef, Files], list[str]] = lambda _repo, files: list(files)
    """The names of the files that are read, and of other files that these name."""
    tokens: Callable[[RepoRef, Files], Mapping[str, int] | None] = lambda _repo, _files: None
    """The number of every token by its text, where the files hold the tokenizer; None where others do."""
    how: str = ""
    """Why the file was chosen that is read."""
    remark: str = ""
    """A sentence about each such file, with `{}` for its name."""
    doubt: str = ""
    """Why weights that do not fit their class may still be intact; empty if they are damaged."""


@dataclass(frozen=True)
class ListedForm:
    """A form in the table; its module is imported only for a repository with a file of such a name."""

    end: str
    """The end of the names of its files."""
    form: Callable[[], ForeignForm]

    def is_possible(self, repo: RepoRef, files: Files) -> bool:
        """Return whether a repository may be read in the form, by the names of its files alone."""
        if repo.file is not None:
            return repo.file.endswith(self.end)
        preferred = any(map(PREFERRED.fullmatch, files))
        return any(name.endswith(self.end) for name in (files if preferred else list_files(repo, self.end)))


def list_files(repo: RepoRef, end: str) -> list[str]:
    """Return the names of all files of a repository that end so, also those one folder below its root."""
    folder, before = repo.folder / repo.subfolder, repo.within("")
    below = {path.relative_to(folder).as_posix() for path in folder.glob(f"*/*{end}") if path.is_file()}
    published = {name.removeprefix(before) for name in repo.published if name.startswith(before)}
    return sorted(name for name in {*repo.files(), *below, *published} if name.endswith(end))


def require_file(repo: RepoRef, file: str, files: Files, kind: str = "") -> str:
    """Return the name of a file that the user names; raise OptionError where it is not among these of its kind."""
    if file not in files:
        listed = ", ".join(files[:10]) or "none"
        raise OptionError(f"{repo} has no {kind}file {printable(file, 200)} (it has {listed}); name another")
    return file


def refuse_pointer(stream: BinaryIO) -> None:
    """Raise HeaderError where a file is the pointer that git leaves without git-lfs; else go back to its beginning."""
    if stream.read(len(LFS_POINTER)) == LFS_POINTER:
        raise HeaderError("is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")
    stream.seek(0)


def unreadable_file(repo: RepoRef, file: str, error: HeaderError | OSError) -> CheckpointError:
    """Return the error about a file whose header is damaged, or that cannot be read."""
    if isinstance(error, HeaderError):
        return CheckpointError(f"{repo}: {printable(file, 200)} {error}")
    why = error.strerror or error
    return CheckpointError(f"{repo}: {printable(file, 200)} cannot be read: {why}; check its permissions")


def parse_once(repo: RepoRef, file: str, parse: Callable[[BinaryIO, int], T]) -> tuple[T, Stamp]:
    """Return the header of a file, read once, and the state of the file; raise CheckpointError if it is damaged.

    The file is downloaded whole: what such a header consists of stands between the weights.
    """
    if file not in repo.heads:
        repo.fetch(file)
        try:
            with open_regular(repo.located(file)) as stream:
                refuse_pointer(stream)
                stamp = Stamp.take(stream)
                repo.heads[file] = parse(stream, stamp.size), stamp
        except (HeaderError, OSError) as error:
            raise unreadable_file(repo, file, error) from None
    known: tuple[T, Stamp] = repo.heads[file]
    return known


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
