"""The GGUF files of a repository: the choice of those that hold the model, and the reading of their headers."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from hf_lineage.checkpoint.foreign_form import (
    PREFERRED,
    HeaderError,
    list_files,
    refuse_pointer,
    require_file,
    unreadable_file,
)
from hf_lineage.checkpoint.gguf.header import GgufHeader, parse, texts
from hf_lineage.errors import ONE_FILE, Ambiguous, CheckpointError, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import OPEN_FILES, Stamp
from hf_lineage.hub.ranges import HEAD, Downloads, RangedFile
from hf_lineage.hub.repo import EVERY, RepoRef

SUFFIX = ".gguf"
BESIDE = re.compile(r"(?:^|[-_./])(?:mmproj|imatrix|vocab|lora|adapter|mtp|draft)(?=[-_.]|$)", re.IGNORECASE)
"""Names of files beside a model: a reader of pictures, the counts of a quantizer, a vocabulary."""
PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
LABEL = re.compile(
    r"[-._]?(?:ud[-_])?(?P<label>bf16|f16|fp16|f32|fp32|i?q\d(?:_[a-z0-9]+)*|tq\d_\d|mxfp4(?:_moe)?|nvfp4)(?=[-._]|$)",
    re.IGNORECASE,
)
SIZES = {"XXS": 0, "XS": 1, "S": 2, "M": 4, "L": 5, "XL": 6}
"""The ends of the names of quantizations of as many bits, by their precision; any other end stands between S and M."""
TOKENS = "tokenizer.ggml.tokens"


class Head(NamedTuple):
    """The header of one file, and the requests and bytes that reading it took."""

    header: GgufHeader
    stamp: Stamp | None
    """The state of the file; None for a file on the Hub."""
    requests: int = 0
    downloaded: int = 0
    """Bytes that were downloaded."""


def choose_files(repo: RepoRef) -> tuple[str, ...]:
    """Return the GGUF files from which a repository is read, the parts of one model in order; none if it is not.

    Raise NothingToCompare where they are several models, CheckpointError where a part is missing, OptionError where the
    file that the user names is missing.
    """
    if repo.file is None and any(map(PREFERRED.fullmatch, repo.files())):
        return ()
    files = list_files(repo, SUFFIX)
    if repo.file not in (None, EVERY):
        if not repo.file.endswith(SUFFIX):
            return ()
        return _parts(repo, require_file(repo, repo.file, files, "GGUF "), files)
    if not (models := list_models(repo) or ([] if "config.json" in repo.files() else files)):
        return ()
    stems = sorted({LABEL.sub("", _bare(file)).casefold() for file in models})
    if len(stems) > 1 and repo.file is None:
        raise Ambiguous(
            f"{repo} holds several models as GGUF ({printable(', '.join(models[:10]), 500)}); name one {ONE_FILE}; "
            "--file all judges each"
        )
    return _parts(repo, max(models, key=_precision), files)


def list_models(repo: RepoRef) -> list[str]:
    """Return the GGUF files of all models of a repository, of several parts the first; OptionError if there is none."""
    files = [file for file in list_files(repo, SUFFIX) if not BESIDE.search(file)]
    if repo.file == EVERY and not files:
        require_file(repo, EVERY, files, "GGUF ")
    return sorted({PART.sub(r"\g<stem>", file): file for file in reversed(files)}.values())


def read_head(repo: RepoRef, file: str) -> Head:
    """Return the header of a GGUF file, read once; raise CheckpointError if it is damaged, or as the Hub's client."""
    if file not in repo.heads:
        downloads = Downloads()
        with _beginning(repo, file, downloads) as (stream, size, stamp):
            header = parse(stream, size)
        repo.heads[file] = Head(header, stamp, downloads.requests, downloads.downloaded)
    known: Head = repo.heads[file]
    return known


def read_tokens(repo: RepoRef, file: str) -> tuple[str, ...]:
    """Return the tokens that a GGUF file lists, in the order of their numbers; raise as `read_head` does."""
    with _beginning(repo, file, Downloads()) as (stream, size, _stamp):
        return texts(stream, size, TOKENS)


@contextlib.contextmanager
def _beginning(repo: RepoRef, file: str, downloads: Downloads) -> Iterator[tuple[BinaryIO, int, Stamp | None]]:
    """Yield a file as a stream, its size and, if it is here, its state; a file on the Hub is fetched as far as read."""
    try:
        remote_file = None if repo.has(file) or not OPEN_FILES.is_dir() else RangedFile(repo, file, downloads)
        if remote_file is None or repo.has_cached(remote_file.content):
            repo.fetch(file)
            with open_regular(repo.located(file)) as stream:
                refuse_pointer(stream)
                stamp = Stamp.take(stream)
                yield stream, stamp.size, stamp
        else:
            with _Fetched(remote_file) as fetched:
                yield io.BufferedReader(fetched, HEAD), remote_file.size, None
    except (HeaderError, OSError) as error:
        raise unreadable_file(repo, file, error) from None


class _Fetched(io.RawIOBase):
    """A file on the Hub as a stream: its beginning is fetched when it is read, each time four times as much."""

    def __init__(self, file: RangedFile) -> None:
        self._file, self._fetched, self._position = file, 0, 0
        self._local = open_regular(file.path).detach()

    def close(self) -> None:
        self._local.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        stop = min(self._position + len(buffer), self._file.size)
        if stop > self._fetched:
            until = min(max(stop, 4 * self._fetched, HEAD), self._file.size)
            self._file.fetch(self._fetched, until)
            self._fetched = until
        self._local.seek(self._position)
        count = self._local.readinto(buffer[: max(stop - self._position, 0)])
        self._position += count
        return count


def _parts(repo: RepoRef, file: str, files: list[str]) -> tuple[str, ...]:
    """Return all parts of the model to which a file belongs."""
    part = PART.fullmatch(file)
    if part is None:
        return (file,)
    count = int(part["count"])
    wanted = [f"{part['stem']}-{number:05}-of-{part['count']}{SUFFIX}" for number in range(1, count + 1)]
    missing = next((name for name in wanted if name not in files), None)
    if missing is not None or not count:
        raise CheckpointError(f"{repo}: {printable(missing or file, 200)} is missing; download all parts of the model")
    return tuple(wanted)


def _bare(file: str) -> str:
    """Return the name of a file without its folder, the number of its part and its suffix."""
    part = PART.fullmatch(file)
    return (part["stem"] if part else file.removesuffix(SUFFIX)).rpartition("/")[2]


def _precision(file: str) -> tuple[int, int, str]:
    """Return a key that is largest for the most precise file, and least for a name that does not say the precision."""
    labels = [match["label"].upper() for match in LABEL.finditer(_bare(file))]
    if not labels:
        return 0, 0, file
    label = labels[-1]
    digits = re.search(r"\d+", label)
    size = 4 if label == "BF16" else SIZES.get(label.rpartition("_")[2], 3)
    return int(digits[0]) if digits else 0, size, file
