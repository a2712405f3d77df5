"""Same: which models on this disk hold the same tensors, by the names of their files or by the bytes of every tensor.

The names of blobs are what a store says about them. They cost nothing, and nobody has read the blobs for it. Digests of
tensors are made of the bytes; then the name of every file that is read is compared with what it holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_lineage.checkpoint import stored_in
from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare
from hf_lineage.files import open_regular, sha256
from hf_lineage.scan.digests import digest_model, digest_tensors
from hf_lineage.scan.local_model import LocalModel, digest_in

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Digest:
    """What came of reading the tensors of one model."""

    sha256: str = ""
    """Of all its tensors, in hexadecimal; empty where they were not read."""
    unread: str = ""
    """Why they are in a form that is not read."""
    problem: str = ""
    """Why they could not be read, or what contradicts the name of a file."""


def digest(model: LocalModel, advance: Advance = lambda _read: None) -> Digest:
    """Return the digest of the tensors of a model; `advance` is told of the bytes that are read."""
    if model.repo is None:
        return Digest()
    try:
        tensors = stored_in(model.repo)
        whole = digest_model(tensors, digest_tensors(tensors, advance))
        _refuse_misnamed(model)
    except NothingToCompare as error:
        return Digest(unread=str(error))
    except (LineageError, OSError, MemoryError) as error:
        return Digest(problem=str(error) or "not enough memory")
    return Digest(whole)


def group_by_names(models: Iterable[LocalModel]) -> list[tuple[str, ...]]:
    """Return the names of models whose files have the same content by their names, or are the same files."""
    readable = [model for model in models if model.files and not model.problem]
    return _groups((model.contents, model.name) for model in readable)


def group_by_digests(models: Sequence[LocalModel], digests: Sequence[Digest]) -> list[tuple[str, ...]]:
    """Return the names of models whose tensors have the same bytes."""
    return _groups((each.sha256, model.name) for model, each in zip(models, digests, strict=True) if each.sha256)


def _groups(pairs: Iterable[tuple[object, str]]) -> list[tuple[str, ...]]:
    groups: dict[object, list[str]] = defaultdict(list)
    for key, name in pairs:
        groups[key].append(name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def _refuse_misnamed(model: LocalModel) -> None:
    """Raise CheckpointError for a file that is called by the SHA-256 of something else."""
    for named, file in _named(model):
        with open_regular(file) as stream:
            if sha256(stream) != named:
                raise CheckpointError(
                    f"{file.resolve().name} is not what its name says: it was changed, or is damaged; download it again"
                )


def _named(model: LocalModel) -> Iterator[tuple[str, Path]]:
    return ((named, file) for file in model.files if (named := digest_in(file)))
