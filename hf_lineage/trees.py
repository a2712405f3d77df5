"""Trees: what the Hub says of the files of a repository at a commit, and of who put them there."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hf_lineage import hub
from hf_lineage.errors import RepositoryError

Answer = TypeVar("Answer")
MOST_MEMBERS = 10_000
"""Of an organisation that are looked through for an author."""


@dataclass(frozen=True)
class Entry:
    """One file: how large it is, and its sha256 if it is stored as a large one, else what git calls its content."""

    size: int
    content: str


@functools.lru_cache(maxsize=32)
def tree(name: str, commit: str, folder: str | None = None) -> Mapping[str, Entry]:
    """Return every file of a repository at a commit, of one folder if one is named; raise as `hub.snapshot` does.

    A commit stays as it is, so it is asked for once.
    """
    from huggingface_hub import HfApi, RepoFile

    def found() -> dict[str, Entry]:
        entries = HfApi().list_repo_tree(name, folder, revision=commit, recursive=True)
        files = (entry for entry in entries if isinstance(entry, RepoFile))
        return {file.path: Entry(file.size, file.lfs.sha256 if file.lfs else file.blob_id) for file in files}

    return _asked(name, found)


def head(name: str, branch: str = "main") -> str:
    """Return the commit at which a branch stands; raise as `hub.snapshot` does."""
    from huggingface_hub import HfApi

    return str(_asked(name, lambda: HfApi().model_info(name, revision=branch).sha))


def fetched(name: str, commit: str, file: str) -> Path:
    """Return a file of a repository in the Hub's cache, downloaded whole if it is not there yet."""
    from huggingface_hub import hf_hub_download

    return Path(_asked(name, lambda: hf_hub_download(name, file, revision=commit, tqdm_class=hub.progress())))


def owners_own(name: str, commit: str, files: Sequence[str]) -> tuple[str, ...]:
    """Return the commits that put these files there if all are the owner's own; none if one is not, or nobody can say.

    The owner is who the repository's name begins with, or for an organisation its members as far as they are public.
    The authors are those that the Hub lists. Git lets whoever pushes name others, so this says that somebody with the
    right to write to the branch has let the commit in, and took it for the owner's.
    """
    from huggingface_hub import HfApi

    found = _asked(name, lambda: HfApi().get_paths_info(name, list(files), revision=commit, expand=True))
    commits = sorted({entry.last_commit.oid if entry.last_commit else "" for entry in found})
    if len(found) != len(files) or not all(commits):
        return ()
    authors = [_asked(name, functools.partial(_authors, name, each)) for each in commits]
    owner = name.partition("/")[0]
    return tuple(commits) if all(authors) and _speak_for(owner, set().union(*authors)) else ()


def _asked(name: str, question: Callable[[], Answer]) -> Answer:
    """What the Hub answers; RepositoryError as well for what is no answer to the question."""
    try:
        return hub.ask(name, question)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise RepositoryError(f"{name}: what the Hub says of it makes no sense ({type(error).__name__})") from None


def _authors(name: str, commit: str) -> set[str]:
    """The authors of a commit; none if the Hub does not say."""
    history = _pages(f"models/{name}/commits/{commit}")
    newest = next(history, {})
    listed = newest.get("authors") or [] if newest.get("id") == commit else []
    return {str(author.get("user")) for author in listed}


def _speak_for(owner: str, people: set[str]) -> bool:
    others = people - {owner}
    if not others:
        return True
    members = itertools.islice(_pages(f"organizations/{owner}/members"), MOST_MEMBERS)
    try:
        return _asked(owner, lambda: others <= {str(member.get("user")) for member in members})
    except RepositoryError:
        return False


def _pages(path: str) -> Iterator[dict[str, Any]]:
    """What the Hub lists at an address, a page at a time, as far as it is read."""
    from huggingface_hub import constants
    from huggingface_hub.utils import paginate  # type: ignore[attr-defined]

    address = f"{constants.ENDPOINT}/api/{path}"
    yield from (item for item in paginate(address, {}, hub.headers(address)) if isinstance(item, dict))
