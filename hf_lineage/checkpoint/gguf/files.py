"""The GGUF files of a repository: the choice of those that hold the model, and their headers, parsed with bounds."""

import contextlib
import io
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from hf_lineage.checkpoint import foreign_form
from hf_lineage.checkpoint.foreign_form import BoundedReader, HeaderError
from hf_lineage.errors import ONE_FILE, Ambiguous, CheckpointError, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import OPEN_FILES, Stamp
from hf_lineage.hub.ranges import HEAD, Downloads, RangedFile
from hf_lineage.hub.repo import EVERY, RepoRef

SUFFIX = ".gguf"
BESIDE = re.compile(r"(?:^|[-_./])(?:mmproj|imatrix|vocab|lora|adapter|mtp|draft)(?=[-_.]|$)", re.IGNORECASE)
PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
LABEL = re.compile(
    r"[-._]?(?:ud[-_])?(?P<label>bf16|f16|fp16|f32|fp32|i?q\d(?:_[a-z0-9]+)*|tq\d_\d|mxfp4(?:_moe)?|nvfp4)(?=[-._]|$)",
    re.IGNORECASE,
)
SIZES = {"XXS": 0, "XS": 1, "S": 2, "M": 4, "L": 5, "XL": 6}  # end of a quantization's name -> its precision; else 3
MAGIC, VERSIONS = b"GGUF", (2, 3)
LARGEST_HEADER = 2**26  # bytes: several times the longest vocabulary
MOST_KEYS, MOST_TENSORS, MOST_ITEMS, MOST_TEXTS = 2**14, 2**17, 2**22, 2**20  # texts are items that are kept
LONGEST_NAME, LONGEST_TEXT, LONGEST_LIST = 2**10, 2**12, 2**12  # bytes of a name, of a kept text; numbers of a list
MOST_DIMENSIONS, LARGEST_DIMENSION, LARGEST_ALIGNMENT = 4, 2**48, 2**20
ALIGNMENT = "general.alignment"
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""The number of a type -> how `struct` reads it."""
TEXT, LIST = 8, 9
SHORT = "it ends within its header"


class GgufTensor(NamedTuple):
    """One tensor as the header describes it."""

    name: str
    shape: tuple[int, ...]  # as NumPy has it: the numbers of the last dimension lie side by side
    kind: int  # the number of its type
    start: int  # the position of its first byte in the file


class Head(NamedTuple):
    """The header of one file, and the requests and bytes that reading it took."""

    metadata: Mapping[str, Any]  # numbers, short texts and short lists of numbers; everything longer is left out
    tensors: tuple[GgufTensor, ...]
    stamp: Stamp | None = None  # the state of the file; None for a file on the Hub
    requests: int = 0
    downloaded: int = 0  # bytes that were downloaded


def choose_files(repo: RepoRef) -> tuple[str, ...]:
    """Return the GGUF files of a model, its parts in order; none if there are none; raise for several models."""
    if repo.file is None and any(map(foreign_form.PREFERRED.fullmatch, repo.files())):
        return ()
    files = foreign_form.list_files(repo, SUFFIX)
    if repo.file not in (None, EVERY):
        if not repo.file.endswith(SUFFIX):
            return ()
        file = foreign_form.require_file(repo, repo.file, files, "GGUF ")
    else:
        if not (models := list_models(repo) or ([] if "config.json" in repo.files() else files)):
            return ()
        stems = {LABEL.sub("", _bare(file)).casefold() for file in models}
        if len(stems) > 1 and repo.file is None:
            listed = printable(", ".join(models[:10]), 500)
            instead = f"name one {ONE_FILE}; --file all judges each"
            raise Ambiguous(f"{repo} holds several models as GGUF ({listed}); {instead}")
        file = max(models, key=_precision)
    if (part := PART.fullmatch(file)) is None:
        return (file,)
    count = int(part["count"])
    wanted = [f"{part['stem']}-{number:05}-of-{part['count']}{SUFFIX}" for number in range(1, count + 1)]
    missing = next((name for name in wanted if name not in files), None)
    if missing is not None or not count:
        raise CheckpointError(f"{repo}: {printable(missing or file, 200)} is missing; download all parts of the model")
    return tuple(wanted)


def list_models(repo: RepoRef) -> list[str]:
    """Return the GGUF files of all models of a repository, of several parts the first; OptionError if there is none."""
    files = [file for file in foreign_form.list_files(repo, SUFFIX) if not BESIDE.search(file)]
    if repo.file == EVERY and not files:
        foreign_form.require_file(repo, EVERY, files, "GGUF ")
    return sorted({PART.sub(r"\g<stem>", file): file for file in reversed(files)}.values())


def read_head(repo: RepoRef, file: str) -> Head:
    """Return the header of a GGUF file, read once; raise CheckpointError if it is damaged, or as the Hub's client."""
    if file not in repo.heads:
        downloads = Downloads()
        with _beginning(repo, file, downloads) as (stream, size, stamp):
            head = parse(stream, size)
        repo.heads[file] = Head(*head[:2], stamp, downloads.requests, downloads.downloaded)
    known: Head = repo.heads[file]
    return known


def read_tokens(repo: RepoRef, file: str) -> tuple[str, ...]:
    """Return the tokens that a GGUF file lists, in the order of their numbers; raise as `read_head` does."""
    with _beginning(repo, file, Downloads()) as (stream, size, _stamp):
        return texts(stream, size, "tokenizer.ggml.tokens")


@contextlib.contextmanager
def _beginning(repo: RepoRef, file: str, downloads: Downloads) -> Iterator[tuple[BinaryIO, int, Stamp | None]]:
    """Yield a file as a stream, its size and, if it is here, its state; a file on the Hub is fetched as far as read."""
    with foreign_form.named_errors(repo, file):
        remote_file = None if repo.has(file) or not OPEN_FILES.is_dir() else RangedFile(repo, file, downloads)
        if remote_file is None or repo.has_cached(remote_file.content):
            with foreign_form.opened_file(repo, file) as (stream, stamp):
                yield stream, stamp.size, stamp
        else:
            with open_regular(remote_file.path).detach() as local:
                yield io.BufferedReader(_FetchedFile(remote_file, local), HEAD), remote_file.size, None


class _FetchedFile(io.RawIOBase):
    """A file on the Hub as a stream: its beginning is fetched when it is read, each time four times as much."""

    def __init__(self, file: RangedFile, local: io.RawIOBase) -> None:
        self._file, self._local = file, local
        self._fetched = self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
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


def _bare(file: str) -> str:
    part = PART.fullmatch(file)
    return (part["stem"] if part else file.removesuffix(SUFFIX)).rpartition("/")[2]


def _precision(file: str) -> tuple[int, int, str]:
    labels = [match["label"].upper() for match in LABEL.finditer(_bare(file))]
    label = labels[-1] if labels else ""
    digits = re.search(r"\d+", label)
    size = 4 if label == "BF16" else SIZES.get(label.rpartition("_")[2], 3)
    return int(digits[0]) if digits else 0, size, file


def parse(stream: BinaryIO, size: int) -> Head:
    """Return the header of a GGUF file of this size in bytes; raise HeaderError, or OSError if it cannot be read."""
    reader = _Reader(stream, size, SHORT, LARGEST_HEADER)
    tensors, keys = reader.beginning()
    if tensors > MOST_TENSORS:
        raise HeaderError(f"claims {tensors} tensors; hf-lineage reads at most {MOST_TENSORS}; do not trust it")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.name()
        if key in metadata:
            raise HeaderError(f"has the key {key!r} twice; do not trust it")
        metadata[key] = reader.value(reader.number("<I"))
    entries = [reader.tensor() for _ in range(tensors)]
    if len({entry.name for entry in entries}) != len(entries):
        raise HeaderError("has two tensors of one name; do not trust it")
    alignment = metadata.get(ALIGNMENT, 32)
    if not isinstance(alignment, int) or not 0 < alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
        raise HeaderError(f"says {ALIGNMENT}: {alignment!r}, which is not a power of two; do not trust it")
    begin = -(-reader.position // alignment) * alignment
    misplaced = next((one for one in entries if one.start % alignment or one.start + begin >= max(size, 1)), None)
    if misplaced is not None:
        raise HeaderError(f"is truncated or damaged: its {misplaced.name} begins behind its end; download it again")
    short = {key: value for key, value in metadata.items() if value is not None}
    return Head(short, tuple(entry._replace(start=begin + entry.start) for entry in entries))


def texts(stream: BinaryIO, size: int, key: str) -> tuple[str, ...]:
    """Return the texts of the list under a key, which `parse` leaves out; none where there is no list of texts."""
    reader = _Reader(stream, size, SHORT, LARGEST_HEADER)
    _, keys = reader.beginning()
    for _ in range(keys):
        name, kind = reader.name(), reader.number("<I")
        if name != key:
            reader.value(kind)
        elif kind == LIST:
            kind, count = reader.number("<I"), reader.count()
            if count > MOST_TEXTS:
                what = f"a list of {count} texts; hf-lineage reads at most {MOST_TEXTS}"
                raise HeaderError(f"has {what}; do not trust it")
            return tuple(reader.text(reader.number("<Q")) for _ in range(count)) if kind == TEXT else ()
    return ()


class _Reader(BoundedReader):
    def beginning(self) -> tuple[int, int]:
        """Return the number of tensors and the number of keys."""
        if self.take(4) != MAGIC:
            raise HeaderError("is not a GGUF file; have it saved again")
        version = self.number("<I")
        if version not in VERSIONS:
            big = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            why = "is written for big-endian machines" if big else f"is of version {version}"
            raise HeaderError(f"{why}; only little-endian versions 2 and 3 are read; convert the model again")
        tensors, keys = self.number("<Q"), self.number("<Q")
        if keys > MOST_KEYS:
            raise HeaderError(f"claims {keys} keys; hf-lineage reads at most {MOST_KEYS}; do not trust it")
        return tensors, keys

    def name(self) -> str:
        length = self.number("<Q")
        if length > LONGEST_NAME:
            raise HeaderError(f"has a name of {length} bytes; do not trust it")
        return self.text(length)

    def value(self, kind: int) -> Any:
        """Return the value of a key; None for one that is too long to be kept."""
        if kind == TEXT:
            length = self.number("<Q")
            return self.skip(length) if length > LONGEST_TEXT else self.text(length)
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind != LIST:
            raise HeaderError(f"has a value of the unknown type {kind}; do not trust it")
        kind, count = self.number("<I"), self.count()
        if kind == TEXT:
            for _ in range(count):
                self.skip(self.number("<Q"))
            return None
        if kind not in SCALARS:
            raise HeaderError(f"has a list of the unknown type {kind}; do not trust it")
        form = f"<{count}{SCALARS[kind][1]}"
        size = struct.calcsize(form)
        return self.skip(size) if count > LONGEST_LIST else struct.unpack(form, self.take(size))

    def tensor(self) -> GgufTensor:
        """Return a tensor, its start counted from where the numbers begin."""
        name, dimensions = self.name(), self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise HeaderError(f"says that its {name} has {dimensions} dimensions; do not trust it")
        shape = tuple(self.number("<Q") for _ in range(dimensions))[::-1]
        if not all(1 <= length <= LARGEST_DIMENSION for length in shape) or math.prod(shape) > LARGEST_DIMENSION:
            raise HeaderError(f"says that its {name} has the shape {shape}; do not trust it")
        return GgufTensor(name, shape, self.number("<I"), self.number("<Q"))

    def count(self) -> int:
        """Return the number of items of a list."""
        count: int = self.number("<Q")
        if count > MOST_ITEMS:
            raise HeaderError(f"has a list of {count} items; do not trust it")
        return count
