"""Files of a repository (of a model, unless another kind is named) at a commit, models of an account, pull requests."""

import functools
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hf_lineage.errors import RepositoryError, printable
from hf_lineage.hub import client
from hf_lineage.hub.repo import hub_name

DATASET = "dataset"  # the kind of a repository of data
MOST_LISTED = 50_000  # models of one author: fifty pages of the Hub
SAME = "Already up to date; nothing was written."
CARD = "README.md"


@dataclass(frozen=True)
class Entry:
    """One file: its size in bytes, and its sha256 if Git LFS stores it, else the name that git gives its content."""

    size: int
    content: str


@functools.lru_cache(maxsize=32)
def tree(name: str, commit: str, folder: str | None = None, kind: str | None = None) -> Mapping[str, Entry]:
    """Return every file of a repository, or of its folder, at a commit, requested once; raise as `client.ask` does."""
    from huggingface_hub import HfApi, RepoFile

    def list_entries() -> dict[str, Entry]:
        entries = HfApi().list_repo_tree(name, folder, revision=commit, recursive=True, repo_type=kind)
        return dict(_entry(entry) for entry in entries if isinstance(entry, RepoFile))

    return client.ask(name, list_entries)


def _entry(file: Any) -> tuple[str, Entry]:
    return client.text(file.path), Entry(int(file.size), client.text(file.lfs.sha256 if file.lfs else file.blob_id))


def head(name: str, branch: str = "main", kind: str | None = None) -> str:
    """Return the commit at which a branch stands; raise as `client.snapshot` does."""
    from huggingface_hub import HfApi

    return client.ask(name, lambda: client.text(HfApi().repo_info(name, revision=branch, repo_type=kind).sha))


def fetch_file(name: str, commit: str, file: str, kind: str | None = None, largest: int | None = None) -> Path:
    """Return a file in the Hub's cache, downloaded if need be; RepositoryError for more than `largest` bytes."""
    from huggingface_hub import HfApi, RepoFile, hf_hub_download, try_to_load_from_cache

    where: dict[str, Any] = {"revision": commit, "repo_type": kind}

    def sizes() -> list[int]:
        entries = HfApi().get_paths_info(name, [file], **where)
        return [_entry(entry)[1].size for entry in entries if isinstance(entry, RepoFile)]

    if largest is not None and not isinstance(try_to_load_from_cache(name, file, **where), str):
        size = next(iter(client.ask(name, sizes)), None)
        if size is None:
            raise RepositoryError(f"{name} has no {file} at commit {commit}; name another revision")
        if size > largest:
            raise RepositoryError(f"{name}: {file} has {size} bytes, and at most {largest} are read")
    return Path(client.ask(name, lambda: hf_hub_download(name, file, tqdm_class=client.progress(), **where)))


def list_models(author: str) -> list[str]:
    """Return the models of an author, each as org/name@commit, the latest change first; raise as `client.ask` does."""
    # The client's own `list_models` is silent for 25 seconds where there is no network.
    from huggingface_hub import ModelInfo, constants
    from huggingface_hub.utils import get_session, hf_raise_for_status  # type: ignore[attr-defined]

    from hf_lineage.hub.errors import access

    if hub_name(author) != author or "/" in author:
        raise RepositoryError(f"{printable(author, 200)} is not the name of an account on the Hub; check it")

    def page() -> tuple[list[ModelInfo], str]:
        answer = get_session().get(address, headers=client.headers(address))
        hf_raise_for_status(answer)
        infos = [ModelInfo(**model) for model in answer.json()]  # type: ignore[no-untyped-call]
        return infos, answer.links.get("next", {}).get("url", "")

    query = urlencode({"author": author, "sort": "lastModified", "expand": "sha"})
    address, models, count = f"{constants.ENDPOINT}/api/models?{query}", list[str](), 0
    while address:
        infos, following = client.ask(author, page, request="listing")
        for info in infos:  # what cannot be a model is left out
            count += 1
            if count > MOST_LISTED:
                raise RepositoryError(f"{author} has more than {MOST_LISTED} models; name those to read")
            is_name = isinstance(info.id, str) and info.id.isascii() and "/" in info.id and hub_name(info.id) == info.id
            if is_name and isinstance(info.sha, str) and client.COMMIT.fullmatch(info.sha):
                models.append(f"{info.id}@{info.sha}")
        address = following if infos else ""  # a page without models is the last, so that models bound the requests
    if not count:
        raise RepositoryError(f"{author} has no public models on the Hub; check the name, or {access()}")
    return models


def commit(name: str, files: Mapping[str, bytes], parent: str, message: str, **where: Any) -> str:
    """Commit files to a Hub repository whose branch stands at `parent`; return the address of commit or pull request.

    `where` is that of `create_commit`. Raise BranchMovedError if the branch has moved, else as `client.ask` does.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    try:
        files.get(CARD, b"").decode()
    except UnicodeDecodeError:
        raise RepositoryError(f"{name}: the Hub accepts {CARD} in UTF-8 only; save it as UTF-8") from None
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]

    def send() -> str:
        with warnings.catch_warnings(), client.without_bars(not sys.stderr.isatty()):
            warnings.simplefilter("ignore")  # the Hub's advice on metadata that this commit does not change
            done = HfApi().create_commit(name, operations, commit_message=message, parent_commit=parent, **where)
        return str(done.pr_url or done.commit_url)

    return client.ask(name, send, request="writing")


def propose(name: str, title: str, description: str, parent: str, changes: Callable[[str], Mapping[str, bytes]]) -> str:
    """Open or update a pull request with the `changes` against a commit; return a sentence on it; raise as `commit`."""
    if not (files := changes(parent)):
        return SAME
    number = open_proposal(name, title)
    if number is None:
        url = commit(name, files, parent, title, commit_description=description, create_pr=True)
        return f"Opened a pull request: {printable(url)}"
    ref = f"refs/pr/{number}"
    tip = head(name, ref)
    if not (files := changes(tip)):
        return f"Pull request {number} is already up to date; nothing was written."
    url = commit(name, files, tip, title, commit_description=description, revision=ref)
    return f"Updated pull request {number}: {printable(url)}"


def open_proposal(name: str, title: str) -> int | None:
    """Return the number of the open pull request with this title that this account made, the latest of several."""
    from huggingface_hub import HfApi

    def find() -> int | None:
        account = HfApi().whoami()["name"]
        discussions = HfApi().get_repo_discussions(
            name, author=account, discussion_type="pull_request", discussion_status="open"
        )
        wanted = (account, title, "open", True)
        numbers = [one.num for one in discussions if (one.author, one.title, one.status, one.is_pull_request) == wanted]
        return max(numbers, default=None)

    return client.ask(name, find, request="writing")


def same_files(name: str, a: str, b: str, besides: Collection[str]) -> bool:
    """Return whether a Hub repository has the same files at two commits, `besides` aside; False if a commit is gone."""
    try:
        changed = tree(name, a).items() ^ tree(name, b).items()
    except RepositoryError:
        return False
    return all(path in besides for path, _ in changed)
