"""Catalogue: the index on disk, a folder of Parquet files with keys, and the signatures that they were made of.

Each model is written in one step into a file of its own, so that a run that is killed loses at most the model it was
reading, and several may write at once. Many small files are joined into one by `compact`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.errors import OptionError, SignatureError, printable
from hf_lineage.files.atomic import write_atomically
from hf_lineage.index.key import BITS, key_of
from hf_lineage.signature.store import encode, load_signature
from hf_lineage.signature.values import Signature, by_path

KEYS, SIGNATURES = "keys", "signatures"
"""The folders of an index."""
ENDING = ".parquet"
MANY = 1000
"""Files of keys from which on they are joined when the next model is added."""
LARGEST = 2**31
"""Bytes of a file of keys that is read."""


@dataclass(frozen=True, order=True)
class Entry:
    """One model along one path."""

    model: str
    commit: str
    """Empty for a folder."""
    path: str
    width: int
    layers: int
    recipe: str
    """By which its signature was made, as the label of the file of a signature."""

    @property
    def identity(self) -> str:
        """The name of its files."""
        return identity(self.model, self.commit, self.path, self.recipe)


@dataclass(frozen=True)
class Known:
    """Models of an index, as a table with a row for each; one that is being joined to others may be there twice."""

    table: Any
    """A table of pyarrow, by the schema of an index."""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def keys(self) -> NDArray[np.uint8]:
        """(n, BITS / 8): the key of each, without a copy where the table is in one piece."""
        column = self.table["key"].combine_chunks()
        codes = np.frombuffer(column.buffers()[1] or b"", np.uint8).reshape(-1, BITS // 8)
        return codes[column.offset : column.offset + len(column)]

    def entry(self, row: int) -> Entry:
        """Return the model in a row."""
        return self.entries([row])[0]

    def entries(self, rows: Sequence[int] | None = None) -> list[Entry]:
        """Return the models in some rows, or in all."""
        chosen = self.table if rows is None else self.table.take(np.array(rows, np.int64))
        return [Entry(**values) for values in chosen.select(list(Entry.__dataclass_fields__)).to_pylist()]

    def like(self, asked: Entry) -> Known:
        """Return those that can be compared with a model: along one path, equally wide, by one recipe."""
        import pyarrow.compute as compute

        same = [compute.equal(self.table[name], getattr(asked, name)) for name in ("path", "width", "recipe")]
        return Known(self.table.filter(compute.and_(same[0], compute.and_(same[1], same[2]))))

    def along(self, path: str) -> int:
        """Return how many models there are along one path."""
        import pyarrow.compute as compute

        return int(compute.sum(compute.equal(self.table["path"], path)).as_py() or 0)

    def wide(self, path: str, widths: Collection[int] | None = None) -> Known:
        """Return those along one path whose stream has one of these widths, by default any."""
        import pyarrow.compute as compute

        chosen = compute.equal(self.table["path"], path)
        if widths is not None:
            fits = compute.is_in(self.table["width"], value_set=_libraries()[0].array(sorted(widths), "int32"))
            chosen = compute.and_(chosen, fits)
        return Known(self.table.filter(chosen))

    def without(self, model: str, commit: str) -> Known:
        """Return all but one model."""
        import pyarrow.compute as compute

        own = compute.and_(compute.equal(self.table["model"], model), compute.equal(self.table["commit"], commit))
        return Known(self.table.filter(compute.invert(own)))


@dataclass(frozen=True)
class Catalogue:
    """An index; its folder need not exist before a model is added."""

    folder: Path

    def add(self, signature: Signature) -> list[Entry]:
        """Put a model into the index, along every path of its signature; one that is there is replaced."""
        entries = []
        for path, single in by_path(signature).items():
            entry = entry_of(signature, path)
            (self.folder / SIGNATURES).mkdir(parents=True, exist_ok=True)
            (self.folder / KEYS).mkdir(parents=True, exist_ok=True)
            # The signature comes last: a model counts as added only where both files are there.
            write_atomically(self._file(entry.identity), _encoded([entry], key_of(single.paths[path])[None]))
            write_atomically(self._signature(entry), encode(single))
            entries.append(entry)
        if sum(1 for _ in self._files()) > MANY:
            self.compact()
        return entries

    def has(self, model: str, commit: str, labels: Mapping[str, str]) -> bool:
        """Return whether a model is in the index along all paths, given the label of its recipe for each."""
        identities = [identity(model, commit, path, label) for path, label in labels.items()]
        return all((self.folder / SIGNATURES / f"{one}.safetensors").is_file() for one in identities)

    def read(self) -> Known:
        """Return every model and its key; SignatureError for a damaged file."""
        arrow, _ = _libraries()
        tables = []
        for file in self._files():
            with contextlib.suppress(FileNotFoundError):  # another process has joined it to others
                tables.append(_decoded(file))
        return Known(arrow.concat_tables([_schema(arrow).empty_table(), *tables]))

    def signature(self, entry: Entry) -> Signature:
        """Return the signature of a model of the index; SignatureError if it is missing or damaged."""
        signature = load_signature(self._signature(entry))
        if entry_of(signature, entry.path) != entry:
            raise SignatureError(
                f"{self._signature(entry)} is not the signature of {printable(entry.model, 200)}; add the model again"
            )
        return signature

    def compact(self) -> None:
        """Join the files of keys into one. A model that is added meanwhile is not lost: its file is not joined."""
        files = list(self._files())
        if len(files) < 2:
            return
        everything: dict[Entry, NDArray[np.uint8]] = {}
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                known = Known(_decoded(file))
                everything |= dict(zip(known.entries(), known.keys, strict=True))
        entries = sorted(everything, key=lambda entry: entry.identity)
        content = _encoded(entries, np.array([everything[entry] for entry in entries], np.uint8))
        joined = self._file(hashlib.sha256(content).hexdigest()[:32])
        write_atomically(joined, content)
        for file in files:
            if file != joined:
                with contextlib.suppress(OSError):
                    file.unlink()

    def _files(self) -> Iterator[Path]:
        return iter(sorted((self.folder / KEYS).glob(f"*{ENDING}")))

    def _file(self, name: str) -> Path:
        return self.folder / KEYS / f"{name}{ENDING}"

    def _signature(self, entry: Entry) -> Path:
        return self.folder / SIGNATURES / f"{entry.identity}.safetensors"


def identity(model: str, commit: str, path: str, recipe: str) -> str:
    """Return the name of the files of a model: equal for one commit, path and recipe."""
    named = "\n".join((model, commit, path, recipe))
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def default_folder() -> Path:
    """Return the place of the index of this user: HF_LINEAGE_INDEX, by default in HF_HOME."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_LINEAGE_INDEX") or Path(constants.HF_HOME) / "lineage" / "index").expanduser()


def entry_of(signature: Signature, path: str) -> Entry:
    """Return the entry of a model along one path of its signature."""
    layers = len(signature.numbers(path))
    label = signature.recipe.label(path)
    return Entry(signature.model, signature.revision or "", path, signature.width, layers, label)


def _encoded(entries: Sequence[Entry], keys: NDArray[np.uint8]) -> bytes:
    arrow, parquet = _libraries()
    columns = {name: [asdict(entry)[name] for entry in entries] for name in Entry.__dataclass_fields__}
    codes = arrow.array([key.tobytes() for key in keys], arrow.binary(BITS // 8))
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns | {"key": codes}, schema=_schema(arrow)), content, compression="zstd")
    return content.getvalue()


def _decoded(file: Path) -> Any:
    arrow, parquet = _libraries()
    try:
        if file.stat().st_size > LARGEST:
            raise SignatureError(f"{file} is larger than an index of keys can be; remove it")
        table = parquet.read_table(file, memory_map=False)
    except FileNotFoundError:
        raise
    except (OSError, arrow.ArrowException) as error:
        raise _refusal(file, str(error)) from None
    if not table.schema.equals(_schema(arrow)):
        raise _refusal(file, f"it has the columns {', '.join(table.schema.names[:10])}")
    return table


def _refusal(file: Path, problem: str) -> SignatureError:
    return SignatureError(
        f"{file} is no file of an index: {printable(problem, 200)}; remove it and add its models again"
    )


def _schema(arrow: Any) -> Any:
    types = {"width": arrow.int32(), "layers": arrow.int32()}
    fields = [arrow.field(name, types.get(name, arrow.string()), nullable=False) for name in Entry.__dataclass_fields__]
    return arrow.schema([*fields, arrow.field("key", arrow.binary(BITS // 8), nullable=False)])


def _libraries() -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet; OptionError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OptionError("an index needs pyarrow; install hf-lineage[index]") from None
    return pyarrow, pyarrow.parquet
