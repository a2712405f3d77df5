"""ForeignForm: a repository with model files that programs other than transformers write or load.

Its header is read part by part within bounds, for the file is untrusted. What a converter did is undone by pieces.
"""

import contextlib
import itertools
import operator
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.registry import slots
from hf_lineage.architecture.schema import Factorization, as_sets
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import LFS_POINTER, TensorInfo, single
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.files.safetensors import Stamp
from hf_lineage.hub.repo import RepoRef

PREFERRED = re.compile(r"(?!adapter_model).*\.safetensors(?:\.index\.json)?|pytorch_model.*\.bin(?:\.index\.json)?")
"""Files that are read in place of those of other programs where a repository has both."""
Undo = Literal["rotated", "plus_one", "transposed", "by_role"]  # what a converter does to a tensor
KEYS = re.compile(r"\.(attn_k|wk)\.")  # in the name of a matrix that makes keys
MOST_HEADS = 2**16


class HeaderError(ValueError):
    """A header that is damaged or hostile; the text is a phrase that follows the name of the file."""


@dataclass(frozen=True)
class ForeignForm:
    """A repository read in one form; each function may raise CheckpointError for damage, NothingToCompare otherwise."""

    repo: RepoRef
    files: tuple[str, ...]  # all parts of GGUF; all ONNX files, the most precise first; an encoder and its decoder
    end: str  # the end of the names of its files
    how: str  # why the file was chosen that is read
    config: Callable[[], dict[str, Any]]  # returns the configuration, as `config.json` of transformers would say it
    open: Callable[[], Checkpoint]  # returns the checkpoint by the names in the files, not those of transformers
    rename: Callable[[Factorization, Mapping[str, Any], Checkpoint], Checkpoint]  # by the names on the Hub's disk
    list_read: Callable[[], list[str]]  # returns the files that are read: of several ONNX files one, and what it names
    aliases: Callable[[str], Iterable[str]] = lambda _name: ()  # returns names that it may have on the Hub's disk
    tokens: Callable[[], Mapping[str, int] | None] = lambda: None  # tokens by text; None where other files hold them
    remark: str = ""  # a sentence about each such file, with `{}` for its name
    doubt: str = ""  # why weights that do not fit their class may still be intact; empty if they are damaged


def list_files(repo: RepoRef, end: str) -> list[str]:
    """Return the names of all files of a repository that end so, also those one folder below its root."""
    folder, before = repo.folder / repo.subfolder, repo.within("")
    below = {path.relative_to(folder).as_posix() for path in folder.glob(f"*/*{end}") if path.is_file()}
    published = {name.removeprefix(before) for name in repo.published_files if name.startswith(before)}
    return sorted(name for name in {*repo.files(), *below, *published} if name.endswith(end))


def require_file(repo: RepoRef, file: str, files: Sequence[str], kind: str = "") -> str:
    """Return the name of a file that the user names; raise OptionError where it is not among these of its kind."""
    if file not in files:
        listed = ", ".join(files[:10]) or "none"
        raise OptionError(f"{repo} has no {kind}file {printable(file, 200)} (it has {listed}); name another")
    return file


@contextlib.contextmanager
def named_errors(repo: RepoRef, file: str) -> Iterator[None]:
    """Raise CheckpointError in place of an error about a file whose header is damaged, or that cannot be read."""
    try:
        yield
    except HeaderError as error:
        raise CheckpointError(f"{repo}: {printable(file, 200)} {error}") from None
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}; check its permissions"
        raise CheckpointError(f"{repo}: {printable(file, 200)} {why}") from None


@contextlib.contextmanager
def opened_file(repo: RepoRef, file: str) -> Iterator[tuple[BinaryIO, Stamp]]:
    """Yield a whole file and its state; HeaderError in place of the pointer that git leaves without git-lfs."""
    repo.fetch(file)
    with open_regular(repo.locate(file)) as stream:
        if stream.read(len(LFS_POINTER)) == LFS_POINTER:
            raise HeaderError("is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder")
        stream.seek(0)
        yield stream, Stamp.take(stream)


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
        self._advance(count)
        content = self._stream.read(count)
        if len(content) != count:
            raise HeaderError("changed while it was read; run again")
        return content

    def text(self, count: int) -> str:
        """Return a text of so many bytes; those that are not UTF-8 are replaced."""
        return self.take(count).decode(errors="replace")

    def skip(self, count: int) -> None:
        """Step over the next bytes; raise HeaderError where the header ends before them."""
        self._advance(count)
        self._stream.seek(count, 1)

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > self._bound < self._size:
            raise HeaderError(f"has a header of more than {self._bound >> 20} MiB; do not trust it")
        if self.position > self._bound:
            raise HeaderError(f"is truncated: {self._ending}; download it again")


class Heads(NamedTuple):
    """The numbers of query heads, and of key/value heads, of a layer."""

    query: int
    key_value: int


@dataclass(frozen=True)
class Piece:
    """A tensor of the model, or one of several that a converter joined."""

    name: str  # its name on the Hub's disk
    stored: str  # the name of the tensor in the file that holds it
    rows: tuple[int, int] | None = None  # its first row in the stored tensor, and the one behind its last; None for all
    turned: bool = False  # whether transformers stores it transposed, as (in, out)
    undo: Undo | None = None  # the other changes that the converter made to it


def by_pieces(
    plain: Checkpoint, pieces: Iterable[Piece], heads: Callable[[str], Heads] = lambda _stored: Heads(1, 1)
) -> Checkpoint:
    """Return a checkpoint by the names on the Hub's disk, given a function from a stored name to its layer's heads."""
    tensors: dict[str, TensorInfo] = {}
    for piece in pieces:
        if piece.name in tensors:
            raise CheckpointError(f"two tensors of the file are {printable(piece.name, 200)}; do not trust it")
        info = plain.tensors[piece.stored]
        if piece.rows is not None:
            start, stop = piece.rows
            info = _change(info, operator.itemgetter(slice(start, stop)), (stop - start, *info.shape[1:]))
        if piece.turned:
            info = _change(info, np.transpose, info.shape[::-1])
        if piece.undo:
            info = revert(piece.undo, piece.stored, info, heads(piece.stored))
        tensors[piece.name] = info
    return plain.with_tensors(tensors)


def _change(info: TensorInfo, change: Callable[[Any], Any], shape: Shape | None = None) -> TensorInfo:
    decode, size = (lambda parts: change(info.decode(parts))), info.itemsize or 4
    return replace(info, shape=info.shape if shape is None else shape, decode=decode, itemsize=size)


def name_in_out(factorization: Factorization) -> frozenset[str]:
    """Return the names, relative to the layer, of the matrices that transformers stores as (in, out)."""
    branches = (factorization.branches.mlp, factorization.branches.attention)
    stored = (slot for sets in branches for matrices in as_sets(sets) for slot in slots(matrices))
    return frozenset(slot.tensor for slot in stored if slot.transposed != (factorization.stored == "in_out"))


def split_rows(rows: int, heads: int, groups: int) -> Iterator[tuple[int, int]]:
    """Yield the rows of queries, keys and values in a matrix; raise NothingToCompare where the heads do not fit."""
    total = heads + 2 * groups
    if not 0 < groups <= heads <= MOST_HEADS or rows % total:
        raise NothingToCompare(f"queries, keys and values: {rows} rows do not make {heads} heads and 2 times {groups}")
    yield from itertools.pairwise((0, rows * heads // total, rows * (heads + groups) // total, rows))


def strip_common_prefix(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return tensors by their names without the prefix of all names, which exporters that wrap a model leave.

    >>> strip_common_prefix({"inner.encoder.layer.0.weight": (2, 2), "inner.embeddings.weight": (2, 2)}).keys()
    dict_keys(['encoder.layer.0.weight', 'embeddings.weight'])
    """
    columns = zip(*(name.split(".")[:-1] for name in shapes), strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
    return {name.split(".", common)[-1]: shape for name, shape in shapes.items()}


def revert(undo: Undo, name: str, info: TensorInfo, heads: Heads) -> TensorInfo:
    """Return a tensor without a change that a converter made, given its name in the file and its layer's heads."""
    rows = info.shape[0]
    text = f"{printable(name, 200)} has {rows} rows, which do not fit {heads.query} and {heads.key_value} heads"
    misfit = CheckpointError(f"{text}; do not trust it")
    match undo:
        case "rotated":  # rotary pairs are neighbours, as in llama.cpp; transformers has them as halves of each head
            count = heads.key_value if KEYS.search(name) else heads.query
            if rows % (2 * count):
                raise misfit
            order = np.arange(rows).reshape(count, rows // count // 2, 2).swapaxes(1, 2).reshape(-1)
            return _change(info, operator.itemgetter(order))
        case "by_role":  # all queries, then all keys, all values; transformers has them by key/value head
            groups, share = heads.key_value, heads.query // heads.key_value
            size = rows // (groups * (share + 2))
            if heads.query % groups or size * groups * (share + 2) != rows:
                raise misfit
            parts = np.split(np.arange(rows), [heads.query * size, (heads.query + groups) * size])
            order = np.concatenate([part.reshape(groups, -1) for part in parts], axis=1).reshape(-1)
            return _change(info, operator.itemgetter(order))
        case "plus_one" if name.endswith(".weight"):  # the file stores a gain in full, transformers less one
            return _change(info, lambda tensor: single(tensor) - 1)
        case "transposed" if name.endswith(".weight") and len(info.shape) == 2:
            return _change(info, np.transpose, info.shape[::-1])
    return info
