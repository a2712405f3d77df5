"""What `--online` fetches: public models, each whole and at one commit, a tokenizer, and data sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from transformers import AutoTokenizer

from benchmarks.paper.experiment import UnavailableError
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.laundering import FunctionError
from benchmarks.paper.parts.public import Public
from hf_lineage.checkpoint.weight_files import weight_files
from hf_lineage.errors import LineageError, NetworkError, printable
from hf_lineage.hub.errors import first_line
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.source.config import described

VERSION = 1
"""Raised when what is found in public models comes to mean something else."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")

K = TypeVar("K")
T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True)
class Look(Generic[T]):
    """What was found in models and at which commits, or nothing and why."""

    found: T | None
    note: str

    @property
    def all(self) -> list[T]:
        """What was found, empty for nothing."""
        return [] if self.found is None else [self.found]

    def also(self, remark: str) -> str:
        """Return what there is to say of it: a remark about what was found and the commits, or why nothing was."""
        return "; ".join(part for part in (remark if self.all else "", self.note) if part)

    def read(self, reading: Callable[[T], S]) -> S | None:
        """Return what a function makes of what was found, if anything was."""
        return None if self.found is None else reading(self.found)


def look(cache: Cache, what: str, find: Callable[..., T], *models: Public) -> Look[T]:
    """Return what is found in public models, each a repository with all its weights on this disk.

    What was found once at the same commits is found again in the cache. Raise NetworkError where the Hub cannot be
    reached, which says nothing about a model; whatever else is wrong with one is why nothing is found.
    """
    try:
        repos = [located(model) for model in models]
        names = [str(repo) for repo in repos]
        found = cache.kept(f"public-{what}", [VERSION, names], lambda: find(*whole(repos)))
    except NetworkError:
        raise
    except (LineageError, FunctionError) as error:
        return Look(None, str(error))
    return Look(found, " beside ".join(names))


def some(looks: dict[K, Look[T]]) -> dict[K, Look[T]]:
    """Return looks at public models; raise UnavailableError where there was nothing to be found in any."""
    notes = [one.note for one in looks.values() if one.found is None]
    if len(notes) == len(looks):
        raise UnavailableError(f"none of its public models could be measured: {notes[0]}")
    return looks


def located(model: Public) -> RepoRef:
    """Return a public model under a name that holds its commit; raise LineageError where there is none."""
    repo = resolve(model.model, folders=False)
    return replace(repo, name=f"{model.repository}@{repo.commit}")


def whole(repos: Sequence[RepoRef]) -> Sequence[RepoRef]:
    """Return models once all their weights are on this disk, for experiments that read them several times.

    Raise LineageError where one has none that can be read, before anything large is fetched.
    """
    files = [weight_files(repo) for repo in repos if described(repo)]
    for repo, wanted in zip(repos, files, strict=True):
        repo.fetch(*wanted)
    return repos


def tokenizer(model: Public) -> Any:
    """Return the tokenizer of a public model; raise LineageError or UnavailableError where there is none."""
    repo = located(model)
    repo.fetch(*TOKENIZER)
    try:
        return AutoTokenizer.from_pretrained(repo.folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{repo} holds no tokenizer that transformers can read ({said(error)})") from error


def dataset(data: Public, split: str) -> Any:
    """Return a split of a data set by the library `datasets`; raise UnavailableError where it cannot be had."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UnavailableError(
            f"{data.family} comes by the library `datasets`, which cannot be imported ({said(error)}); "
            "`pip install datasets`, or choose another scale than paper"
        ) from error
    try:
        return load_dataset(data.repository, split=split, revision=data.commit)
    except Exception as error:  # it has errors of its own and lets through those of all that it is built on
        raise UnavailableError(
            f"{data.family} cannot be had from {data.model} on the Hub ({said(error)}); "
            "check the connection and try again"
        ) from error


def said(error: BaseException) -> str:
    """Return what an error says first, on one printable line."""
    return printable(first_line(error), 300)
