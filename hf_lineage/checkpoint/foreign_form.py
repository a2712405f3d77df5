"""ForeignForm: a repository with model files that programs other than transformers write or load.

A new form is a subclass, and a line of `forms_of` in `foreign`. The parts of its header are read one after the other
within bounds, for the file is untrusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, TypeVar

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
    """A repository read in one form; each function may raise CheckpointError for damage, NothingToCompare otherwise."""

    repo: RepoRef
    files: tuple[str, ...]
    """All parts of a GGUF model; all ONNX files of one model, the most precise first; an encoder and its decoder."""
    end: ClassVar[str]
    """The end of the names of its files."""
    how: ClassVar[str]
    """Why the file was chosen that is read."""
    remark: ClassVar[str] = ""
    """A sentence about each such file, with `{}` for its name."""
    doubt: ClassVar[str] = ""
    """Why weights that do not fit their class may still be intact; empty if they are damaged."""

    @staticmethod
    def choose(repo: RepoRef) -> tuple[str, ...]:
        """Return the files that hold the model, by their names; none of a repository that is not of the form."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        """Return the configuration, as `config.json` of transformers would say it."""
        return self.repo.config()

    def open(self) -> Checkpoint:
        """Return the checkpoint by the names in the files, which are not those of transformers."""
        raise NotImplementedError

    def rename(self, factorization: Factorization, config: Mapping[str, Any], checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint by the names on the Hub's disk, given factorization and configuration of its class."""
        raise NotImplementedError

    def aliases(self, name: str) -> Iterable[str]:
        """Return the names that a tensor may have on the Hub's disk, given the name that `rename` leaves it."""
        del name
        return ()

    def list_read(self) -> list[str]:
        """Return the names of the files that are read: of several ONNX files one, and what it names."""
        return list(self.files)

    def tokens(self) -> Mapping[str, int] | None:
        """Return the number of every token by its text; None where other files hold the tokenizer."""
        return None


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
    """Return the header of a file, read once, and the state of the file; raise CheckpointError if it is damaged."""
    if file not in repo.heads:
        repo.fetch(file)  # whole: what such a header consists of stands between the weights
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
